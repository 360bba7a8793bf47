"""``turnlens health``, ``agreement`` and ``counters`` as a user runs them: whole output."""

import csv
import io
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from memory_store import MemoryStore, Scene
from scenes import cold, incomplete
from vllm_counters import add_differences, add_samples

from turnlens.dashboard import checking

GOLDEN = Path(__file__).with_name("checking_golden")


def run(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def save(path: Path, scene: Scene) -> MemoryStore:
    """Its spans in a file, each received a second after its end."""
    store = MemoryStore(str(path))
    store.add(scene.spans())
    scene.recorder.close()
    store.connection.execute("update spans set received_ns = end_ns + 1_000_000_000")
    return store


@pytest.fixture(scope="module")
def unwell(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("unwell") / "turns.duckdb"
    store = save(path, incomplete())
    for at, dropped in ((0, 0), (10, 45)):
        store.connection.execute(
            "insert into metric_points by name select resource_id, 'turnlens.records.dropped' as name, 'gauge' as kind, "
            "? as time_ns, ? as value from resources",
            [Scene.at(at), dropped],
        )
    store.close()
    return str(path)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("counted") / "turns.duckdb"
    store = MemoryStore(str(path))
    add_differences(store)
    store.close()
    return str(path)


def test_health_for_a_person(unwell: str) -> None:
    done = run(checking.health, "--store", unwell)
    assert (done.exit_code, done.output) == (0, (GOLDEN / "health.txt").read_text())


def test_health_for_a_program(unwell: str) -> None:
    rows = json.loads(run(checking.health, "--store", unwell, "--format", "json").output)
    assert [(row["level"], row["topic"]) for row in rows] == [
        ("bad", "dropped_records"),
        ("bad", "incomplete_turns"),
        ("bad", "incomplete_turns"),
        ("bad", "incomplete_turns"),
        ("ok", "complete_turns"),
        ("ok", "ingest_lag"),
    ]
    rows = list(csv.DictReader(io.StringIO(run(checking.health, "--store", unwell, "--format", "csv").output)))
    assert rows[0]["next_step"].startswith("Raise TURNLENS_BUFFER")


def test_health_for_ci(unwell: str, tmp_path: Path) -> None:
    done = run(checking.health, "--store", unwell, "--fail-if-bad")
    assert (done.exit_code, done.output) == (3, (GOLDEN / "health.txt").read_text())
    save(tmp_path / "well.duckdb", cold()).close()
    done = run(checking.health, "--store", str(tmp_path / "well.duckdb"), "--fail-if-bad")
    assert done.exit_code == 0
    assert done.output == (
        "0 bad · 0 warnings · 2 ok\n\n"
        "ok    complete_turns  test/r0: 1 of 1 turn\n"
        "ok    ingest_lag      test/r0: median 1.0 s, 95 % 1.0 s, max 1.0 s; last 5 minutes: median 1.0 s, 95 % 1.0 s (4 spans)\n"
    )


def test_health_of_a_range_without_turns(unwell: str) -> None:
    done = run(checking.health, "--store", unwell, "--since", "2020-01-01", "--until", "2020-01-02", "--fail-if-bad")
    assert (done.exit_code, done.output) == (0, "Nothing has arrived in that range.\n")


def test_agreement_for_a_person(counted: str) -> None:
    done = run(checking.agreement, "--store", counted, "--differing", "--interval", "60")
    assert (done.exit_code, done.output) == (0, (GOLDEN / "agreement.txt").read_text())


def test_agreement_for_a_program(counted: str) -> None:
    every = json.loads(run(checking.agreement, "--store", counted, "--format", "json").output)
    differing = json.loads(run(checking.agreement, "--store", counted, "--format", "json", "--differing").output)
    assert (len(every), len(differing)) == (50, 14)
    assert {row["explained_by"] for row in differing} == {
        "failed_asynchronous_restore",
        "failed_synchronous_restore",
        "preempted_in_prefill",
        "full_hit_with_external_tail",
        "cancelled_restore",
    }


def test_agreement_without_counters(unwell: str) -> None:
    done = run(checking.agreement, "--store", unwell)
    assert done.exit_code == 0
    assert done.output.startswith("Neither samples of the engine's counters (vllm:*, as OTLP metrics) nor usage fields")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "moon"], "There is no engine 'moon' in "),
        (["--run", "b"], "There is no run 'b' in "),
        (["--last", "soon"], "'soon' is no length of time"),
        (["--since", "2026-09-22", "--until", "2026-09-21"], "before it begins"),
    ],
)
def test_what_cannot_be_meant_is_refused(unwell: str, arguments: list[str], said: str) -> None:
    for command in (checking.health, checking.agreement):
        done = run(command, "--store", unwell, *arguments)
        assert (done.exit_code, said in done.output) == (2, True), done.output
    done = run(checking.agreement, "--store", unwell, "--until", "2020-01-01")
    assert (done.exit_code, "No turn lies in that range." in done.output) == (2, True)


def test_counters_of_an_engine_that_sends_nothing_else(tmp_path: Path) -> None:
    """SGLang's metrics, scraped twice."""
    path = tmp_path / "counted.duckdb"
    store = MemoryStore(str(path))
    counter = "sglang:storage_prefetch_unfulfilled_tokens"
    names = (f"{counter}{{reason=host_capacity}}", f"{counter}{{reason=below_threshold}}")
    add_samples(store, [(0, dict.fromkeys(names, 0)), (5, dict(zip(names, (13_459, 240), strict=True)))], engine="sglang")
    store.close()
    done = run(checking.counters, "--store", str(path))
    assert (done.exit_code, done.output) == (0, (GOLDEN / "counters.txt").read_text())
    (row, _) = json.loads(run(checking.counters, "--store", str(path), "--format", "json").output)
    assert (row["engine"], row["tokens"], row["cause"]) == ("sglang", 13_459, "restore_skipped.oversize")
    done = run(checking.counters, "--store", str(path), "--until", "2020-01-01")
    assert (done.exit_code, done.output[:32]) == (0, "No counter in that range says th")
    done = run(checking.counters, "--store", str(path), "--engine", "sgland")
    assert (done.exit_code, "There are: sglang." in done.output) == (2, True)
