"""``turnlens demo --scenario`` as a user runs it, and docs/scenarios.md, which shows what it prints."""

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from memory_store import MemoryStore

from turnlens.dashboard.commands import turnlens
from turnlens.dashboard.scenarios import render
from turnlens.queries import connect
from turnlens.tracing.engines.reference.scenarios import SCENARIOS, run_scenario

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "scenarios.md").read_text()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(turnlens, list(arguments))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    store = tmp_path_factory.mktemp("agent") / "agent store.duckdb"
    done = run("demo", "--scenario", "agent", "--store", str(store))
    assert done.exit_code == 0, done.output
    return store, done.stdout


def test_a_table_with_the_reports_figures_beside(printed: tuple[Path, str]) -> None:
    store, text = printed
    head, rest = text.split("\n\n", 1)
    assert re.fullmatch(rf"[\d,]+ spans over OTLP into {re.escape(str(store))} in \d+ s\.", head)
    assert rest.startswith(render(SCENARIOS["agent"], run_scenario("agent")))
    (row,) = [line.split() for line in text.splitlines() if re.match(r"lru_leaf +3 ", line)]
    assert row == ["lru_leaf", "3", "0", "0", "0", "0", "32", "32", "22,248,063", "22,226,688"]


def test_what_it_says_to_run_next_runs(printed: tuple[Path, str]) -> None:
    _, text = printed
    commands = [shlex.split(line)[1:] for line in text.split("Next:")[1].strip().splitlines()]
    assert [command[0] for command in commands] == ["explain", "whatif", "sql"]
    outputs: list[str] = []
    for command in commands:
        done = run(*command)
        assert done.exit_code == 0, done.output
        outputs.append(done.output)
    assert "Why not a hit (tokens 0-375,600): evicted.slots, observed" in outputs[0]
    assert "greedy_dual_size" in outputs[1]
    assert re.search(r"agent greedy_dual_size +gds-session-t3 +380000 +375600 +provided.turn", outputs[2])


def test_the_rows_for_programs(tmp_path: Path) -> None:
    store = str(tmp_path / "s.duckdb")
    rows = run_scenario("messages", seed=3).rows
    done = run("demo", "--scenario", "messages", "--seed", "3", "--format", "json", "--store", store)
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == rows
    done = run("demo", "--scenario", "messages", "--format", "csv", "--store", store)  # an earlier one's store is replaced
    assert done.stdout.splitlines()[0] == "messages,cold_ttft_s,warm_ttft_s"
    read = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [float(row["cold_ttft_s"]) for row in read] == [row["cold_ttft_s"] for row in rows]
    opened = connect(store)
    try:
        engines = opened.query("select count(*) as n from resources").to_pylist()
        runs = opened.query("select distinct run from turns order by run").to_pylist()
    finally:
        opened.close()
    assert engines == [{"n": 4}]
    assert [row["run"] for row in runs] == ["messages 120", "messages 240", "messages 30", "messages 4"]


def test_what_is_refused(tmp_path: Path) -> None:
    done = run("demo", "--scenario", "sorcery", "--store", str(tmp_path / "s.duckdb"))
    assert done.exit_code == 2
    assert all(f"'{name}'" in done.output for name in SCENARIOS)
    for arguments in (["--sensitivity"], ["--scenario", "retention", "--sensitivity"]):
        done = run("demo", *arguments)
        assert (done.exit_code, done.output) == (2, "Error: --sensitivity needs --scenario with one of: authors.\n")
    assert not list(tmp_path.iterdir())


def test_another_store_is_left_alone(tmp_path: Path) -> None:
    store = MemoryStore(str(tmp_path / "s.duckdb"))
    store.connection.execute("insert into resources (resource_id, engine) values ('r', 'vllm')")
    store.close()
    before = (tmp_path / "s.duckdb").read_bytes()
    done = run("demo", "--scenario", "messages", "--store", str(tmp_path / "s.duckdb"))
    assert done.exit_code == 1
    assert "holds more than a demo" in done.output
    assert (tmp_path / "s.duckdb").read_bytes() == before


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_page_shows_what_is_printed(name: str) -> None:
    scenario = SCENARIOS[name]
    assert f"```\n{render(scenario, run_scenario(name))}```\n" in DOCS
    assert f"| `{name}` | {scenario.report or 'single figures'} | {scenario.brief} |" in DOCS


def test_every_scenario_says_what_it_must() -> None:
    assert list(SCENARIOS) == [scenario.name for scenario in SCENARIOS.values()]
    for scenario in SCENARIOS.values():
        assert set(scenario.keys) <= set(scenario.columns)
        assert set(scenario.shown) <= set(scenario.columns)
        assert all(set(row) <= set(scenario.columns) for row in scenario.reported)
    with pytest.raises(KeyError, match="sorcery"):
        run_scenario("sorcery")
