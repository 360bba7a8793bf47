"""The verbs as a user runs them: on a file, through a running collector, and with bad input."""

import csv
import io
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
import requests
from click.testing import CliRunner, Result
from memory_store import START_NS, CountingIds, Scene, file_store
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from scenes import evicted_for_slots

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.dashboard import cli, output
from turnlens.dashboard.commands import turnlens
from turnlens.queries import schema


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(turnlens, list(arguments), input=stdin)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    scene = evicted_for_slots()
    path = file_store(tmp_path_factory.mktemp("store") / "turns.duckdb", scene.spans())
    scene.recorder.close()
    return str(path)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    path = tmp_path_factory.mktemp("serving") / "turns.duckdb"
    with Collector(Settings(store=path, http_port=0, grpc_port=0)) as collector:
        scene = evicted_for_slots()
        OTLPSpanExporter(endpoint=f"{collector.http_url}/v1/traces").export(scene.spans())
        scene.recorder.close()
        yield collector


def test_turns_as_a_table(store: str) -> None:
    done = run("turns", "--store", store)
    assert done.exit_code == 0
    assert done.output == (
        "turn_id  verdict     main_cause                   prompt  hit  restored  recomputed  new  unobserved  ttft_s  conversation  started_at\n"
        "a-1      cold        first_seen.new_conversation      96    0         0           0   96           0   1.000  a             2026-09-21 14:13:20\n"
        "a-2      hit         provided.turn                   110   96         0           0   14           0   0.500  a             2026-09-21 14:13:25\n"
        "b-1      cold        first_seen.new_conversation      50    0         0           0   50           0   1.000  b             2026-09-21 14:13:30\n"
        "a-3      recomputed  evicted.slots                   130    0         0          96   34           0   4.000  a             2026-09-21 14:13:40\n"
    )


def test_conversations_and_filters(store: str) -> None:
    rows = json.loads(run("conversations", "--store", store, "--format", "json").output)
    assert [(row["conversation"], row["turns"], row["hit"], row["recomputed"], row["reuse_ratio"]) for row in rows] == [
        ("a", 3, 96, 96, 0.5),
        ("b", 1, 0, 0, None),
    ]
    rows = json.loads(run("turns", "--store", store, "--verdict", "recomputed", "--format", "json").output)
    assert [row["turn_id"] for row in rows] == ["a-3"]


def test_lists_over_a_range(tmp_path: Path) -> None:
    spans: list[ReadableSpan] = []
    for label, engine, start in (("before", "ring0", 0), ("after", "ring1", 100)):
        scene = Scene(engine=engine, ids=CountingIds(start))
        scene.serve("a-1", "a", 100, ["a"], start, run=label)
        scene.serve("a-2", "a", 140, ["a"], start + 10, hit=96, run=label)
        spans += scene.spans()
        scene.recorder.close()
    store = str(file_store(tmp_path / "runs.duckdb", spans))

    def listed(*arguments: str) -> list[tuple[object, ...]]:
        done = run(*arguments, "--store", store, "--format", "json")
        assert done.exit_code == 0, done.output
        names = ("turn_id", "run") if arguments[0] == "turns" else ("conversation", "engine", "turns", "hit", "run")
        return [tuple(row[name] for name in names) for row in json.loads(done.output)]

    assert listed("turns") == [("a-1", "before"), ("a-2", "before"), ("a-1", "after"), ("a-2", "after")]
    assert listed("turns", "--run", "after", "--limit", "1") == [("a-2", "after")]
    assert listed("turns", "--engine", "ring0") == [("a-1", "before"), ("a-2", "before")]
    cut = datetime.fromtimestamp((START_NS + 105 * 10**9) / 1e9, UTC).isoformat()
    assert listed("turns", "--since", cut) == [("a-2", "after")]
    assert listed("turns", "--until", cut, "--run", "after") == [("a-1", "after")]
    assert listed("conversations") == [("a", "ring0", 2, 96, "before"), ("a", "ring1", 2, 96, "after")]
    assert listed("conversations", "--until", cut) == [("a", "ring0", 2, 96, "before"), ("a", "ring1", 1, 0, "after")]
    for verb in ("turns", "conversations"):
        assert run(verb, "--store", store).output.splitlines()[0].split()[-1] == "run"
        unknown = run(verb, "--store", store, "--run", "aftre")
        assert (unknown.exit_code, unknown.output) == (2, f"Error: There is no run 'aftre' in {store}. There are: after.\n")


def test_explain_in_three_formats(store: str) -> None:
    table = run("explain", "a-3", "--store", store)
    assert table.exit_code == 0
    assert "evicted.slots, observed" in table.output
    data = json.loads(run("explain", "a-3", "--store", store, "--format", "json").output)
    assert data["turn"]["turn_id"] == "a-3"
    assert [(s["start_token"], s["end_token"], s["cause"]) for s in data["spans"]] == [
        (0, 96, "evicted.slots"),
        (96, 130, "first_seen.new_tokens"),
    ]
    assert data["spans"][0]["eviction"]["by_turn"] == "b-1"
    assert data["cost"]["lost_seconds"] == pytest.approx(3.4 - 20 * 3.8 / 130)
    rows = list(csv.DictReader(io.StringIO(run("explain", "a-3", "--store", store, "--format", "csv").output)))
    assert [row["cause"] for row in rows] == ["evicted.slots", "first_seen.new_tokens"]


def test_explain_takes_a_trace_or_a_span_id(store: str) -> None:
    for given in ("00000000000000000000000000000004", "000000000000000c"):
        assert run("explain", given, "--store", store).output.startswith("Turn a-3 of conversation a")


def test_turns_of_an_unknown_conversation(store: str) -> None:
    done = run("turns", "--conversation", "nope", "--store", store)
    assert done.exit_code == 2
    assert "There is no conversation" in done.output


def test_a_list_that_is_cut_says_so(store: str) -> None:
    assert "The latest 2: --limit shows more" in run("turns", "--limit", "2", "--store", store).output
    assert "The latest" not in run("turns", "--store", store).output


def test_an_unknown_turn(store: str) -> None:
    done = run("explain", "a-4", "--store", store)
    assert done.exit_code == 2
    assert done.output == f"Error: There is no turn 'a-4' in {store}.\nTry: a-1, a-2, a-3, b-1\n"


def test_sql_on_a_file_and_through_a_collector(store: str, serving: Collector) -> None:
    query = "select turn_id, recomputed_tokens from turns where recomputed_tokens > 0"
    served = str(serving.settings.store)
    for where in (store, served, serving.http_url):
        done = run("sql", query, "--store", where, "--format", "csv")
        assert (done.exit_code, done.output) == (0, "turn_id,recomputed_tokens\na-3,96\n")
    done = run("sql", "--store", store, "--format", "json", stdin="select 1 as one")
    assert json.loads(done.output) == [{"one": 1}]


def test_every_answer_is_the_same_from_a_file_and_a_collector(store: str, serving: Collector) -> None:
    for verb in (["explain", "a-3"], ["turns"], ["conversations"], ["sql", "from causes order by all"]):
        answers = [
            run(*verb, "--store", where, "--format", "json").output.replace(resource, "R")
            for where in (store, serving.http_url)
            for resource in [
                json.loads(run("sql", "select resource_id from resources", "--store", where, "--format", "json").output)[0][
                    "resource_id"
                ]
            ]
        ]
        assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("delete from spans", "DELETE is refused"),
        ("attach 'other.duckdb'", "ATTACH is refused"),
        ("copy spans to 'x.csv'", "COPY is refused"),
        ("set threads = 1", "SET is refused"),
        ("select 1; select 2", "One statement at a time"),
        ("", "There is no SQL in it"),
        ("-- only a comment", "There is no SQL in it"),
        ("select * from read_csv('/etc/passwd')", "read_csv is refused"),
        ("select * from '/etc/passwd'", "/etc/passwd"),
        ("selekt 1", "syntax error"),
        ("select * from no_such_view", "no_such_view"),
    ],
)
def test_sql_that_is_refused(store: str, serving: Collector, sql: str, reason: str) -> None:
    before = Path(store).read_bytes()
    for where in (store, serving.http_url):
        done = run("sql", sql, "--store", where)
        assert done.exit_code == 2, done.output
        assert reason.lower() in done.output.lower()
        assert "Traceback" not in done.output
    assert Path(store).read_bytes() == before


def test_an_attribute_without_a_column_of_its_own(tmp_path: Path) -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=4, user="ann", size=3, at_ns=scene.at(0))
    turn.finished("abort", at_ns=scene.at(1))
    path = file_store(tmp_path / "s.duckdb", scene.spans())
    scene.recorder.close()
    query = 'select attributes."turnlens.user" as who, attributes."turnlens.size" as size, attributes from spans'
    (row,) = json.loads(run("sql", query, "--store", str(path), "--format", "json").output)
    assert (row["who"], row["size"]) == ("ann", "3")
    assert json.loads(row["attributes"]) == {"turnlens.user": "ann", "turnlens.size": 3}


def test_a_snapshot_by_the_stores_path(serving: Collector, store: str, tmp_path: Path) -> None:
    done = run("snapshot", str(tmp_path / "copy.duckdb"), "--store", str(serving.settings.store))
    assert done.exit_code == 0, done.output
    alone = run("snapshot", str(tmp_path / "other.duckdb"), "--store", store)
    assert (alone.exit_code, "copy the file" in alone.output) == (2, True)


def test_columns_of_one_name_are_told_apart(store: str, serving: Collector) -> None:
    query = "select 1 as a, 2 as a, 3 as a_1, true as t"
    for where in (store, serving.http_url):
        assert run("sql", query, "--store", where, "--format", "csv").output == "a,a_1,a_1_1,t\n1,2,3,True\n"
        joined = run("sql", "from spans join resources using (resource_id) limit 1", "--store", where, "--format", "json")
        assert {"attributes", "attributes_1"} <= set(json.loads(joined.output)[0])


def test_sql_prints_numbers_as_they_are(store: str) -> None:
    assert run("sql", "select 2026 as year, 1e-9::double as tiny", "--store", store).output == "year   tiny\n2026  1e-09\n"


def test_sql_prints_six_digits_of_a_float_in_a_table_and_all_to_a_program(store: str) -> None:
    query = "select 2 / 3 as third, 1234567.891 * 1 as large, 0.1::double + 0.2::double as near, 2::double as two, 1e20::double as vast"
    done = run("sql", query, "--store", store)
    assert [line.split() for line in done.output.splitlines()] == [
        ["third", "large", "near", "two", "vast"],
        ["0.666667", "1234568", "0.3", "2", "1e+20"],
    ]
    exact = ["0.6666666666666666", "1234567.891", "0.30000000000000004", "2.0", "1e+20"]
    assert run("sql", query, "--store", store, "--format", "csv").output == f"third,large,near,two,vast\n{','.join(exact)}\n"
    (row,) = json.loads(run("sql", query, "--store", store, "--format", "json").output)
    assert [str(value) for value in row.values()] == exact


def test_what_a_macro_refuses_is_said_without_duckdbs_words(store: str, serving: Collector) -> None:
    for where in (store, serving.http_url):
        done = run("slots", "--interval", "0.0001", "--store", where)
        said = "Intervals of 0.0001 s are too short for this range: at most 10,000 can be made."
        assert (done.exit_code, done.output) == (2, f"Error: {said}\n")
        assert "Binder Error: " in run("sql", "select nosuch", "--store", where).output


def test_a_narrow_terminal_loses_columns_and_says_which(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_width", lambda: 61)
    lines = run("turns", "--store", store).output.splitlines()
    assert lines[0].split() == ["turn_id", "verdict", "main_cause", "prompt", "hit"]
    assert lines[-1] == (
        "Left out for want of width: restored, recomputed, new, unobserved, ttft_s, conversation, started_at. --format json has them."
    )


def test_a_long_result_as_a_table_is_cut_and_says_so(store: str) -> None:
    lines = run("sql", "from range(5000)", "--store", store).output.splitlines()
    assert len(lines) == 1002
    assert lines[-1] == "and 4,000 more rows; --format csv prints all"


def test_the_dashboard_listens_on_loopback_unless_told_otherwise(store: str) -> None:
    done = run("dashboard", "--host", "0.0.0.0", "--store", store)
    assert done.exit_code == 2
    assert "--without-login" in done.output


def test_a_collector_waits_for_a_reader_of_its_store(store: str, tmp_path: Path) -> None:
    path = tmp_path / "held.duckdb"
    path.write_bytes(Path(store).read_bytes())
    path.with_name("held.duckdb.server.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')  # of one that was killed
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1], read_only=True); print('ready', flush=True); time.sleep(1.5)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        with Collector(Settings(store=path, http_port=0, grpc_port=0)) as collector:
            assert (
                run("sql", "select count(*) as n from turns", "--store", collector.http_url, "--format", "csv").output
                == "n\n4\n"
            )


def test_a_query_that_nobody_waits_for_is_stopped(serving: Collector) -> None:
    slow = "select count(*) from range(100000000) a, range(1000) b"
    for _ in range(3):
        with pytest.raises(requests.ReadTimeout):
            requests.post(f"{serving.http_url}/query", json={"sql": slow}, timeout=0.5)
    begun = time.monotonic()
    assert run("turns", "--store", serving.http_url).exit_code == 0
    assert time.monotonic() - begun < 8


def test_a_turn_whose_span_says_little(tmp_path: Path) -> None:
    body = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "5b8efff798038103d269b633813fc60c",
                                "spanId": "eee19b7ec3c1b174",
                                "name": "turn",
                                "startTimeUnixNano": "1790000000000000000",
                                "endTimeUnixNano": "1790000000500000000",
                                "attributes": [{"key": "turnlens.turn_id", "value": {"stringValue": "hand-1"}}],
                            }
                        ]
                    }
                ]
            }
        ]
    }
    with Collector(Settings(store=tmp_path / "s.duckdb", http_port=0, grpc_port=0)) as collector:
        requests.post(f"{collector.http_url}/v1/traces", json=body, timeout=5).raise_for_status()
        said = run("explain", "hand-1", "--store", collector.http_url).output
    assert "engine unknown" in said
    assert "status unknown" in said
    assert "Why incomplete: accounts_missing." in said


def test_native_duckdb_works_on_the_file(store: str) -> None:
    with duckdb.connect(store, read_only=True) as connection:
        assert connection.execute("select count(*) from turns").fetchall() == [(4,)]
        (comment,) = connection.execute(
            "select comment from duckdb_columns() where table_name = 'turns' and column_name = 'seen_tokens'"
        ).fetchall()
        assert comment == ("S: longest prefix seen before in any turn [tokens]",)


def test_a_snapshot_of_a_running_store(serving: Collector, tmp_path: Path) -> None:
    copy = tmp_path / "copy.duckdb"
    done = run("snapshot", str(copy), "--store", serving.http_url)
    assert done.exit_code == 0, done.output
    with duckdb.connect(str(copy), read_only=True) as connection:
        assert connection.execute("select count(*) from turns").fetchall() == [(4,)]


def test_a_snapshot_never_takes_the_place_of_the_store_itself(serving: Collector, tmp_path: Path) -> None:
    live = serving.settings.store
    done = run("snapshot", str(live), "--store", serving.http_url)
    assert done.exit_code == 2
    assert "exists" in done.output
    nowhere = run("snapshot", str(tmp_path / "no" / "f.duckdb"), "--store", serving.http_url)
    assert nowhere.exit_code == 1
    assert "could not be written" in nowhere.output
    kept = tmp_path / "kept.duckdb"
    kept.write_text("precious")
    assert run("snapshot", str(kept), "--store", serving.http_url).exit_code == 2
    assert run("snapshot", str(tmp_path / "new"), "--store", "http://127.0.0.1:9").exit_code == 1
    assert kept.read_text() == "precious"
    assert run("sql", "select count(*) as n from turns", "--store", str(live), "--format", "csv").output == "n\n4\n"


def test_json_has_no_numbers_that_are_none(store: str) -> None:
    done = run("sql", "select 'nan'::double as a, 'inf'::double as b, 1.5 as c", "--store", store, "--format", "json")
    assert json.loads(done.output, parse_constant=lambda name: pytest.fail(name)) == [{"a": None, "b": None, "c": 1.5}]


def test_queries_lists_what_there_is() -> None:
    listed = json.loads(run("queries", "--format", "json").output)
    assert {"turns", "causes", "evictions"} <= {row["name"] for row in listed}
    assert not any(row["name"].startswith("_") for row in listed)
    shown = run("queries", "evictions")
    assert "the turn that needed the room" in shown.output
    assert "create or replace view evictions" in shown.output
    missing = run("queries", "evictionz")
    assert (missing.exit_code, missing.output) == (
        2,
        "Error: There is no table, view or macro evictionz. `turnlens queries` lists them.\n",
    )


def test_queries_of_a_store(store: str, serving: Collector) -> None:
    for where in (store, serving.http_url):
        listed = json.loads(run("queries", "--store", where, "--format", "json").output)
        assert {("turns", "view"), ("spans", "table"), ("turn_of", "macro")} <= {(row["name"], row["kind"]) for row in listed}
        columns = json.loads(run("queries", "restores", "--store", where, "--format", "json").output)
        assert columns[0] == {"name": "turn_id", "type": "VARCHAR", "brief": "the turn that it was for"}
        missing = run("queries", "evictionz", "--store", where)
        assert missing.exit_code == 2
        assert missing.output.startswith(
            f"Error: There is no table or view evictionz in {where}. `turnlens queries` lists them;"
        )


def test_stores_that_cannot_be_used(tmp_path: Path) -> None:
    missing = run("turns", "--store", str(tmp_path / "none.duckdb"))
    assert missing.exit_code == 1
    assert "turnlens demo" in missing.output
    text = tmp_path / "text.duckdb"
    text.write_text("not a database at all, but long enough to be read as a header " * 100)
    assert run("turns", "--store", str(text)).exit_code == 1
    nobody = run("turns", "--store", "http://127.0.0.1:9")
    assert nobody.exit_code == 1
    assert "turnlens serve" in nobody.output
    future = tmp_path / "future.duckdb"
    with duckdb.connect(str(future)) as connection:
        schema.install(connection)
        connection.execute("insert into schema_history values (99, 0, '9.0', 'later')")
    refused = run("turns", "--store", str(future))
    assert refused.exit_code == 1
    assert "schema version 99" in refused.output
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as connection:
        connection.execute("create table customers (id int)")
    assert "not written by Turnlens" in run("turns", "--store", str(other)).output


def test_a_store_of_another_build_is_read_with_this_ones_views(tmp_path: Path) -> None:
    scene = evicted_for_slots()
    path = file_store(tmp_path / "older.duckdb", scene.spans())
    scene.recorder.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("drop macro table list_turns")
        connection.execute("create or replace view conversations as select 1 as old")
        connection.execute("comment on table schema_history is 'of another build'")
    before = path.read_bytes()
    rows = json.loads(run("turns", "--store", str(path), "--format", "json").output)
    assert [row["turn_id"] for row in rows] == ["a-1", "a-2", "b-1", "a-3"]
    assert len(json.loads(run("conversations", "--store", str(path), "--format", "json").output)) == 2
    assert path.read_bytes() == before


def test_a_file_that_another_process_holds(tmp_path: Path) -> None:
    path = tmp_path / "held.duckdb"
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('ready', flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        done = run("turns", "--store", str(path))
        assert done.exit_code == 1
        assert "open in another process" in done.output
        holder.communicate("\n")


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run("serve", "--store", str(tmp_path / "s.duckdb"), "--http-port", port, "--grpc-port", "0")
        assert done.exit_code == 1
        assert f"Port {port}" in done.output
        assert "--http-port (TURNLENS_HTTP_PORT)" in done.output


def test_bad_settings_are_named(tmp_path: Path) -> None:
    done = run("serve", "--store", str(tmp_path / "s.duckdb"), "--http-port", "many")
    assert done.exit_code == 1
    assert "--http-port: 'many' is not a whole number" in done.output


def test_a_missing_extra_prints_the_install_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "turnlens.dashboard.commands", None)

    def missing(name: str, *args: object, **kwargs: object) -> object:
        raise ModuleNotFoundError("No module named 'streamlit'", name="streamlit")

    monkeypatch.setattr("builtins.__import__", missing)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    monkeypatch.undo()
    assert ended.value.code == 2
    assert 'pip install "turnlens[dashboard]"' in capsys.readouterr().err
