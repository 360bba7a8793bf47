"""``turnlens demo`` as a user runs it."""

import json
from pathlib import Path

import duckdb
from click.testing import CliRunner, Result
from earlier import first_version
from memory_store import file_store
from scenes import evicted_for_slots

from turnlens.dashboard.commands import turnlens


def run(*arguments: str) -> Result:
    return CliRunner().invoke(turnlens, list(arguments))


def test_the_demo(tmp_path: Path) -> None:
    path = tmp_path / "demo.duckdb"
    done = run("demo", "--store", str(path), "--format", "json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert {row["verdict"] for row in shown["totals"]} == {"hit", "restored", "recomputed", "cold", "incomplete"}
    assert shown["explained"]["turn"]["main_cause"] == "evicted.slots"
    causes = {row["main_cause"] for row in shown["turns"]}
    assert {
        "evicted.slots",
        "provided.turn",
        "first_seen.new_conversation",
        "not_cache.queue",
        "unobserved.events_missing",
    } <= causes
    again = run("demo", "--store", str(path))  # an earlier demo is replaced
    assert again.exit_code == 0, again.output
    assert "Verdict: recomputed" in again.output
    assert "turnlens dashboard --store" in again.output


def test_a_demo_of_an_earlier_version_is_replaced_too(tmp_path: Path) -> None:
    path = tmp_path / "demo.duckdb"
    with duckdb.connect(str(path)) as connection:
        first_version(connection)
    done = run("demo", "--store", str(path), "--format", "csv")
    assert done.exit_code == 0, done.output
    with duckdb.connect(str(path)) as connection:
        connection.execute("insert into schema_history values (99, 0, '9', 'of the future')")
    done = run("demo", "--store", str(path))
    assert done.exit_code == 1
    assert "schema version 99" in done.output


def test_the_demo_replaces_nothing_but_a_demo(tmp_path: Path) -> None:
    scene = evicted_for_slots()
    store = file_store(tmp_path / "turns.duckdb", scene.spans())
    scene.recorder.close()
    done = run("demo", "--store", str(store))
    assert done.exit_code == 1
    assert "holds more than a demo" in done.output
    assert store.exists()
