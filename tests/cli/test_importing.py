"""``turnlens import`` as a user runs it: into a file, into a running collector, twice, and what it says of bad input."""

import base64
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.protobuf.json_format import MessageToJson
from memory_store import Scene
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.dashboard.commands import turnlens
from turnlens.queries import connect

ROWS = "turn_id,start,prompt_tokens,cached_tokens\nx,1790000000,100,64\ny,1790000060,120,bad\n"
SAID = """\
file   lines  turns  unread
{file}      3      1       1
Not read in {file}: cached_tokens is no number (1)

3 spans sent to {store}, which has 1 turn now.
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(turnlens, ["import", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(ROWS)


def test_into_a_file_and_again() -> None:
    for _ in range(2):
        done = run("turns", "t.csv", "--store", "s.duckdb")
        assert done.exit_code == 0
        assert done.stdout == SAID.format(file="t.csv", store="s.duckdb")
        assert done.stderr == "  t.csv:3: cached_tokens is no number\n"


def test_as_json() -> None:
    done = run("turns", "t.csv", "--store", "s.duckdb", "--format", "json")
    assert json.loads(done.stdout) == [
        {
            "file": "t.csv",
            "lines": 3,
            "turns": 1,
            "unread": 1,
            "unread_because": "cached_tokens is no number (1)",
            "notes": None,
        }
    ]


def test_into_a_running_collector_by_its_file_and_by_its_url() -> None:
    with Collector(Settings(store=Path("s.duckdb"), http_port=0, grpc_port=0)) as collector:
        assert run("turns", "t.csv", "--store", "s.duckdb").exit_code == 0
        assert "which has 1 turn now" in run("turns", "t.csv", "--store", collector.http_url).stdout
        assert "which has 2 turns now" in run("turns", "t.csv", "--engine", "other", "--store", collector.http_url).stdout


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    done = run("turns", "t.csv", tmp_path / "t.csv", "./t.csv", "--store", "s.duckdb")
    assert done.stdout.count("Not read in") == 1
    assert "which has 1 turn now" in done.stdout


def test_a_collector_that_is_not_there_is_said_at_once() -> None:
    done = run("turns", "t.csv", "--store", "http://127.0.0.1:9")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: No collector answers at http://127.0.0.1:9. Start one: turnlens serve --store FILE.\n",
    )


def test_otlp_files(tmp_path: Path) -> None:
    scene = Scene()
    scene.serve("a-1", "a", 32, ["k0", "k1"], 0.0, publish=["k0", "k1"])
    request = encode_spans(scene.spans())
    scene.recorder.close()
    # OTLP writes ids in hexadecimal digits, protobuf's own JSON in base64.
    ids = re.compile(r'("(?:traceId|spanId|parentSpanId)": )"([^"]+)"')
    text = ids.sub(
        lambda found: f'{found[1]}"{base64.b64decode(found[2]).hex()}"', json.dumps(json.loads(MessageToJson(request)))
    )
    Path("spans.jsonl").write_text(f"{text}\nnot json\n{{}}\n{text}\n")
    Path("spans.pb").write_bytes(request.SerializeToString())
    for name in ("spans.jsonl", "spans.pb"):
        done = run("otlp", name, "--store", "s.duckdb")
        assert done.exit_code == 0, done.output
        assert "which has 1 turn now" in done.stdout
    assert "a line that is not JSON (1)" in run("otlp", "spans.jsonl", "--store", "s.duckdb").stdout
    store = connect("s.duckdb")
    assert store.query("select turn_id, hit_tokens, complete from turns").to_pylist() == [
        {"turn_id": "a-1", "hit_tokens": 0, "complete": True}
    ]
    store.close()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("llama", "nowhere.log"), 1, "nowhere.log: No such file or directory."),
        (("llama", "t.csv"), 1, "t.csv has no line of llama-server's log. Is it another kind? See `turnlens import --help`."),
        (("llama", "t.csv", "--started", "soon"), 2, "--started: 'soon' is no time. Give one such as 2026-11-29T14:05:00Z."),
        (("traffic", "t.csv"), 1, "t.csv: no request with a time was found. What was left out: a line that is not JSON (3)."),
        (("sparkcache", "t.csv"), 1, "t.csv: no record of SparkCache was found. Is SPARK_CONTEXT_CACHE_TRACE_REUSE=1 set?"),
        (("turns", "t.csv", "--map", "x"), 2, "--map takes COLUMN=FIELD, such as tokens_in=prompt_tokens; not 'x'."),
        (("otlp", "t.csv"), 1, "t.csv has no OTLP request that could be stored."),
        (("turns", "."), 1, ".: Is a directory."),
    ],
)
def test_bad_input_is_refused_by_name(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = run(*arguments, "--store", "s.duckdb")
    assert (done.exit_code, done.stderr.startswith(f"Error: {words}")) == (code, True), done.output
