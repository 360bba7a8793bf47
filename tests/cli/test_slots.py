"""``turnlens slots`` and ``turnlens blame`` as a user runs them: four turns on two slots, whole output."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from memory_store import file_store
from scenes import cold, two_slots

from turnlens.dashboard.occupancies import blame, slots

GOLDEN = Path(__file__).parent
VERBS = {"slots": slots, "blame": blame}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    scene = two_slots()
    path = file_store(tmp_path_factory.mktemp("store") / "turns.duckdb", scene.spans())
    scene.recorder.close()
    return str(path)


def run(verb: str, *arguments: str) -> Result:
    return CliRunner().invoke(VERBS[verb], list(arguments))


def test_slots_for_a_person(store: str) -> None:
    done = run("slots", "--store", store, "--interval", "10")
    assert (done.exit_code, done.output) == (0, (GOLDEN / "slots_golden.txt").read_text())


def test_blame_for_a_person(store: str) -> None:
    done = run("blame", "--store", store)
    assert (done.exit_code, done.output) == (0, (GOLDEN / "blame_golden.txt").read_text())


def test_for_a_program(store: str) -> None:
    done = run("slots", "--store", store, "--interval", "10", "--format", "json")
    answer = json.loads(done.output)
    assert list(answer) == ["bounds", "evictions", "occupancy"]
    assert [row["bound"] for row in answer["occupancy"]] == ["neither", "neither", "slot-bound", "slot-bound"]
    assert answer["bounds"][0]["slot_bound_intervals"] == 2
    done = run("slots", "--store", store, "--interval", "10", "--format", "csv")
    assert len(done.output.splitlines()) == 5
    done = run("blame", "--store", store, "--by", "turn", "--limit", "1", "--format", "json")
    assert [(row["evictor_turn"], row["victim_turn"], row["of_pairs"]) for row in json.loads(done.output)] == [
        ("C-t1", "A-t1", 2)
    ]
    assert run("blame", "--store", store, "--limit", "1").output.startswith(
        "1 of 2 pairs; 2 evictions from the device in all; "
    )


def test_nothing_to_say(tmp_path: Path) -> None:
    scene = cold()
    path = str(file_store(tmp_path / "turns.duckdb", scene.spans()))
    scene.recorder.close()
    assert run("blame", "--store", path).output == "Nothing was evicted from the device in that range.\n"
    assert run("slots", "--store", path).output.startswith(
        "test/r0: neither slots nor a pool of tokens are known\n"
        "  Unknown in all 3 intervals of 1.0 s: nothing says what was free.\n"
        "  Nothing was evicted from the device.\n"
        "  Samples and events cannot be compared: there are not both.\n"
    )


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "x"], "There is no run 'x' in {store}. There is none."),
        (["--engine", "tset"], "There is no engine 'tset' in {store}. There are: test."),
        (["--until", "2026-09-21T14:13:20"], "No turn lies in that range."),
        (["--since", "soon"], "'soon' is no time."),
    ],
)
def test_a_range_of_nothing_is_named(store: str, verb: str, arguments: list[str], said: str) -> None:
    done = run(verb, "--store", store, *arguments)
    assert (done.exit_code, said.format(store=store) in done.output, "Traceback" in done.output) == (2, True, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["slots", "--interval", "0"], "0.0 is not in the range x>0."),
        (["slots", "--interval", "0.0001"], "Intervals of 0.0001 s are too short for this range: at most 10,000 can be made."),
        (["blame", "--limit", "0"], "0 is not in the range x>=1."),
        (["blame", "--by", "tenant"], "'tenant' is not one of 'conversation', 'turn'."),
    ],
)
def test_bad_input_is_named(store: str, arguments: list[str], said: str) -> None:
    done = run(*arguments, "--store", store)
    assert (done.exit_code, said in done.output, "Traceback" in done.output) == (2, True, False)


def test_no_store(tmp_path: Path) -> None:
    done = run("slots", "--store", str(tmp_path / "none.duckdb"))
    assert (done.exit_code, "There is no store at" in done.output) == (1, True)
