"""``turnlens conversation``, ``retention`` and ``snapshot-cost`` as a user runs them: whole output, and what is refused.

TURNLENS_GOLDEN=write writes the files anew."""

import json
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from memory_store import Scene, file_store

from turnlens.dashboard import histories

GOLDEN = Path(__file__).with_name("histories_golden")


@click.group()
def turnlens() -> None:
    """The verbs alone."""


for _verb in (histories.conversation, histories.retention, histories.snapshot_cost):
    turnlens.add_command(_verb)


def agents() -> Scene:
    """Conversation a names itself, an agent without an id goes on beside it; b takes what they had left."""
    scene = Scene(engine="ring")
    serve = scene.serve
    serve("a-1", "a", 48, ["a0", "a1", "a2"], 0, publish=["a0", "a1", "a2"], message_count=1, run="before")
    serve("n-1", None, 32, ["n0", "n1"], 5, publish=["n0", "n1", "n2"], message_count=1, run="before")
    serve("a-2", "a", 80, ["a0", "a1", "a2", "a3"], 10, hit=48, publish=["a3"], parent="a2", message_count=2, run="before")
    serve("n-2", None, 64, ["n0", "n1", "n2", "n3"], 15, hit=48, message_count=2, run="before")
    big = serve("b-1", "b", 320, [f"b{at}" for at in range(20)], 20, first=24, publish=[f"b{at}" for at in range(20)])
    scene.recorder.evicted(["a1", "a2", "a3"], 16, reason="memory", for_turn=big, at_ns=scene.at(22))
    serve("a-3", "a", 96, ["a0", "a1", "a2", "a3", "a4"], 30, hit=16, message_count=3)
    return scene


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    scene = agents()
    path = file_store(tmp_path_factory.mktemp("store") / "agents.duckdb", scene.spans())
    scene.recorder.close()
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(turnlens, list(arguments))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("conversation", ["conversation", "a"]),
        ("conversation_derived", ["conversation", "n-2"]),  # by one of its turns
        ("conversation_csv", ["conversation", "a", "--format", "csv"]),
        ("retention", ["retention"]),
        ("retention_seconds", ["retention", "--by", "seconds"]),
        ("retention_reasks", ["retention", "--reasks", "--format", "csv"]),
        ("retention_none", ["retention", "--until", "2026-09-21T14:13:25"]),
        ("snapshot_cost", ["snapshot-cost"]),
        ("snapshot_cost_decode", ["snapshot-cost", "--decode", "--format", "csv"]),
    ],
)
def test_for_a_person(store: str, name: str, arguments: list[str]) -> None:
    done = run(*arguments, "--store", store)
    assert done.exit_code == 0, done.output
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TURNLENS_GOLDEN") == "write":
        path.write_text(done.output)
    assert done.output == path.read_text()


def test_for_a_program(store: str) -> None:
    kept = json.loads(run("retention", "--format", "json", "--store", store).output)
    assert (kept["by"], kept["half"]["gone_from"], len(kept["curve"])) == ("publishes", 20, 2)
    assert [row["reuse_ratio"] for row in kept["curve"]] == [1.0, 0.25]
    cost = json.loads(run("snapshot-cost", "--format", "json", "--run", "before", "--store", store).output)
    assert {row["reuse"] for row in cost["fits"]} == {"cold", "grown"}
    assert [row["publish_in_flight"] for row in cost["decode"]] == [False]
    turns = json.loads(run("conversation", "derived:n-1", "--format", "json", "--store", store).output)
    assert [(row["turn_id"], row["linked_by"], row["cached_ratio"]) for row in turns] == [
        ("n-1", "prefix", 0.0),
        ("n-2", "prefix", 0.75),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["conversation", "c"], "There is no conversation 'c' in "),
        (["conversation", "c"], "Try: a, b, derived:n-1"),
        (["retention", "--engine", "rink"], "There is no engine 'rink' in "),
        (["retention", "--until", "2026-09-21"], "No turn lies in that range. "),
        (
            ["retention", "--by", "weather"],
            "'weather' is not one of 'publishes', 'conversations', 'turns', 'tokens', 'seconds'",
        ),
        (["snapshot-cost", "--run", "after"], "There is no run 'after' in "),
    ],
)
def test_what_is_refused(store: str, arguments: list[str], said: str) -> None:
    done = run(*arguments, "--store", store)
    assert done.exit_code == 2
    assert said in done.output
