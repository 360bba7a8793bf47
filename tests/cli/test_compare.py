"""``turnlens compare`` as a user and as CI run it: ten turns a side, whole output."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from memory_store import file_store
from sides import two_runs

from turnlens.dashboard.comparisons import compare

GOLDEN = Path(__file__).with_name("compare_golden.txt")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    before, after = two_runs()
    path = file_store(tmp_path_factory.mktemp("store") / "turns.duckdb", [*before.spans(), *after.spans()])
    before.recorder.close()
    after.recorder.close()
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(compare, arguments)


def test_for_a_person(store: str) -> None:
    done = run("before", "after", "--store", store)
    assert (done.exit_code, done.output) == (0, GOLDEN.read_text())


def test_the_head_says_what_is_compared(store: str) -> None:
    done = run(
        "--store", store, "--engine", "ring", "--a", "2026-09-21T14:13:20..2026-09-21T14:15", "--b", "2026-09-21T14:15.."
    )
    assert done.output.splitlines()[:2] == [
        "A  2026-09-21 14:13:20..2026-09-21 14:15:00 UTC: 4 turns, 1 conversation; 0 incomplete left out",
        "B  2026-09-21 14:15:00.. UTC: 16 turns, 4 conversations; 0 incomplete left out",
    ]
    assert run("1", "2", "--by", "version", "--store", store).output.startswith("A  version 1: 10 turns, 5 conversations")


def test_for_a_program(store: str) -> None:
    done = run("before", "after", "--store", store, "--format", "csv")
    lines = done.output.splitlines()
    assert (
        lines[0] == "figure,a,b,difference,low,high,unit,kind,turns_a,turns_b,differs,conversations_a,conversations_b,meaning"
    )
    assert lines[1] == "turns,10.0,10.0,0.0,0.0,0.0,turns,total,10,10,False,5,5,complete turns"
    assert lines[8] == (
        "half_hit_turns,0.0,5.0,5.0,1.0,10.0,turns,total,5,5,True,5,5,continuation turns with at least half of the prompt hit"
    )
    rows = json.loads(run("before", "after", "--store", store, "--format", "json").output)
    assert [row["figure"] for row in rows] == [line.split(",")[0] for line in lines[1:]]


def test_for_ci(store: str) -> None:
    both = ("--fail-if", "reuse_ratio<-0.02", "--fail-if", "below_half_hit_turns>0", "--format", "csv")
    done = run("before", "after", "--store", store, *both)
    assert done.exit_code == 0
    assert done.stderr == (
        "reuse_ratio<-0.02: passed, the difference is 0.5 (0.5 to 0.5).\n"
        "below_half_hit_turns>0: passed, the difference is -5 (-10 to -1).\n"
    )
    done = run("after", "before", "--store", store, *both, "--fail-if", "ttft_median_seconds.hit>1")
    assert done.exit_code == 3
    assert done.stderr == (
        "ttft_median_seconds.hit>1: cannot be told, for a side has no such turns.\n"
        "Error: reuse_ratio<-0.02: the difference is -0.5 (-0.5 to -0.5).\n"
        "below_half_hit_turns>0: the difference is 5 (1 to 10).\n"
    )
    assert done.stdout.startswith("figure,a,b,")  # what was found is printed all the same


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name two runs, or give two ranges"),
        (["before"], "One side is missing: name two runs, or none and two ranges."),
        (["before", "aftr"], "There is no run 'aftr' in"),
        (["before", "aftr"], "There are: after."),
        (["before", "after", "--by", "colour"], "'colour' is not one of 'run', 'version', 'engine'"),
        (["before", "after", "--fail-if", "reuse<0"], "There is no figure 'reuse'. Figures: turns, incomplete_turns, "),
        (["before", "after", "--fail-if", "reuse_ratio"], "is no condition. Write FIGURE<NUMBER"),
        (["--a", "..2026-01-01", "--b", "2026-01-01.."], "No turn of side A lies in its range."),
    ],
)
def test_bad_input_is_named(store: str, arguments: list[str], said: str) -> None:
    done = run("--store", store, *arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_no_store(tmp_path: Path) -> None:
    done = run("a", "b", "--store", str(tmp_path / "none.duckdb"))
    assert done.exit_code == 1
    assert "There is no store at" in done.output
