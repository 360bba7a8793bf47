"""Every verb on stores that hold next to nothing: an answer or a message, never a traceback."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from turnlens.dashboard.commands import turnlens

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard" / "kit"))

import dashboard_scenes as scenes

VERBS = [
    ["turns"],
    ["conversations"],
    ["explain", "c-1"],
    ["conversation", "agent-c"],
    ["report"],
    ["slots"],
    ["blame"],
    ["blame", "--by", "turn"],
    ["retention"],
    ["retention", "--reasks"],
    ["snapshot-cost"],
    ["snapshot-cost", "--decode"],
    ["compare", "x", "y"],
    ["health"],
    ["agreement"],
    ["counters"],
    ["whatif"],
    ["queries"],
    ["sql", "from turns"],
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stores")
    return {
        "nothing": scenes.file_store(folder / "nothing.duckdb", []),
        "only_broken": scenes.file_store(folder / "broken.duckdb", scenes.only_broken()),
    }


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "csv"]], ids=["table", "json", "csv"])
@pytest.mark.parametrize("scene", ["nothing", "only_broken"])
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb(verb: list[str], scene: str, form: list[str], stores: dict[str, Path]) -> None:
    done = CliRunner().invoke(turnlens, [*verb, *form, "--store", str(stores[scene])])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 2), done.output
    assert " has no argument " not in done.output
    assert done.output.strip()


def test_turns_that_are_broken_are_listed(stores: dict[str, Path]) -> None:
    done = CliRunner().invoke(turnlens, ["turns", "--store", str(stores["only_broken"]), "--format", "csv"])
    assert (done.exit_code, len(done.output.splitlines())) == (0, 3)


def test_a_report_without_a_complete_turn(stores: dict[str, Path]) -> None:
    done = CliRunner().invoke(turnlens, ["report", "--store", str(stores["only_broken"])])
    head = done.output.split("    ")[0]
    assert head == "2 turns of 1 conversation · no prompt token of a complete turn · 2 incomplete (100.0 %)"
    assert "None of these turns is complete: nothing is added up, and `turnlens health` says why." in done.output
