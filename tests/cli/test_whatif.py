"""``turnlens whatif`` as a user runs it: a store of four turns on two slots, whole output."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from memory_store import file_store
from scenes import two_slots

from turnlens.dashboard.commands import turnlens

GOLDEN = Path(__file__).with_name("whatif_golden.txt")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    scene = two_slots()
    path = file_store(tmp_path_factory.mktemp("store") / "turns.duckdb", scene.spans())
    scene.recorder.close()
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(turnlens, ["whatif", *arguments])


def test_for_a_person(store: str) -> None:
    done = run("--store", store)
    assert (done.exit_code, done.output) == (0, GOLDEN.read_text())


def test_for_a_program(store: str) -> None:
    done = run("--store", store, "--format", "csv", "--capacity", "2,3", "--policy", "lru_leaf")
    assert done.exit_code == 0
    assert done.output == (
        "policy,capacity,unit,capacity_bytes,turns,seen_tokens,hit_tokens,reuse_ratio,recomputed_tokens,lost_seconds,note\n"
        "lru_leaf,2,slots,,4,1000,0,0.0,1000,0.9,what ran\n"
        "lru_leaf,3,slots,,4,1000,999,0.999,1,0.0009,reuse stops growing\n"
    )
    done = run("--store", store, "--format", "json", "--conversation", "A")
    answer = json.loads(done.output)
    assert answer["conversation"] == "A"
    assert [(knee["policy"], knee["capacity"]) for knee in answer["knees"]] == [("lru_leaf", 3), ("greedy_dual_size", 2)]
    assert set(answer["curve"][0]) >= {"policy", "capacity", "unit", "reuse_ratio", "lost_seconds"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--capacity", "0"], "At least 1 slot is needed, not 0"),
        (["--capacity", "many"], "--capacity takes whole numbers with commas between them, such as 64,128,256; not 'many'"),
        (["--capacity", ","], "--capacity takes whole numbers with commas between them, such as 64,128,256; not ','"),
        (["--turn", "A-t2", "--capacity", "4"], "--turn asks for one turn"),
        (["--bytes-per-token", "8"], "test/r0 has slots, not blocks"),
        (["--policy", "magic"], "'magic' is not one of 'lru_leaf', 'greedy_dual_size'"),
        (["--engine", "moon"], "No engine start here is called 'moon'. There are:\n"),
        (["--conversation", "Z"], "There is no conversation 'Z' on test/r0. `turnlens conversations` lists them."),
    ],
)
def test_bad_input_is_named(store: str, arguments: list[str], said: str) -> None:
    done = run("--store", store, *arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_no_store(tmp_path: Path) -> None:
    done = run("--store", str(tmp_path / "none.duckdb"))
    assert done.exit_code == 1
    assert "There is no store at" in done.output


def test_explain_quotes_it(store: str) -> None:
    done = CliRunner().invoke(turnlens, ["explain", "A-t2", "--store", store])
    assert done.exit_code == 0
    assert (
        "What would have kept it (tokens 0-999)\n"
        "  About 3 slots with the same policy, or greedy_dual_size at 2 slots (replayed on all 3 publishes since 14:13:20.1).\n"
    ) in done.output


def test_one_turn(store: str) -> None:
    done = run("--store", store, "--turn", "A-t2")
    assert (done.exit_code, done.output) == (
        0,
        "What would have kept tokens 0-999 of turn A-t2\n"
        "  About 3 slots with the same policy, or greedy_dual_size at 2 slots (replayed on all 3 publishes since 14:13:20.1).\n",
    )
    done = run("--store", store, "--turn", "A-t2", "--format", "csv")
    assert done.output == "policy,capacity,unit,pool_tokens,more\nlru_leaf,3,slots,,True\ngreedy_dual_size,2,slots,,False\n"
    done = run("--store", store, "--turn", "A-t1")
    assert (done.exit_code, done.output) == (
        0,
        "Turn A-t1 (cold, first_seen.new_conversation) lost nothing to an eviction under pressure, or nothing of which a replay "
        "could tell more.\n",
    )
    done = run("--store", store, "--turn", "A-t9")
    assert (done.exit_code, "There is no turn 'A-t9'" in done.output) == (2, True)
