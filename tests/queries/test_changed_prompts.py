"""Prompts that do not continue the conversation's previous turn. Blocks of 16 tokens; a key names all that comes before its end."""

from typing import Any

import pytest
from memory_store import MemoryStore, Scene

OLD = [f"a{n}" for n in range(6)]


def _second(
    keys: list[str], prompt: int, hit: int = 0, *, output: int = 10, start: float = 10.0, **facts: Any
) -> list[tuple[Any, ...]]:
    """The causes of a second turn after one of 100 tokens (96 in blocks) and an answer of ten."""
    scene = Scene()
    scene.serve("a-1", "a", 100, OLD, 0.0, publish=OLD)
    scene.serve("a-2", "a", prompt, keys, start, hit=hit, **facts)
    return _causes(scene.store(), "a-2")


def _causes(store: MemoryStore, turn: str) -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select start_token, end_token, source, cause, confidence, provided_by_turn from causes where turn_id = ? order by 1",
        [turn],
    )
    return [tuple(row.values()) for row in rows]


def test_a_prompt_that_goes_on_has_not_changed() -> None:
    assert _second([*OLD, "a6", "a7"], 130, hit=96) == [
        (0, 96, "hit", "provided.turn", "observed", "a-1"),
        (96, 130, "new", "first_seen.new_tokens", "derived", None),
    ]


def test_history_was_edited() -> None:
    """Two blocks are as before; the third is not, and so none after it. What lies past 110 tokens would have been new anyway."""
    assert _second([*OLD[:2], "b2", "b3", "b4", "b5", "b6", "b7"], 130, hit=32) == [
        (0, 32, "hit", "provided.turn", "observed", "a-1"),
        (32, 110, "new", "prefix_changed.history_edited", "derived", "a-1"),
        (110, 130, "new", "first_seen.new_tokens", "derived", None),
    ]


def test_the_header_was_changed() -> None:
    """Not even the first block is as before: a time of day in the system prompt, for example."""
    assert _second(["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"], 130) == [
        (0, 110, "new", "prefix_changed.header", "derived", "a-1"),
        (110, 130, "new", "first_seen.new_tokens", "derived", None),
    ]


@pytest.mark.parametrize(("prompt", "detail"), [(90, "truncation"), (48, "compaction")])
def test_a_shorter_prompt(prompt: int, detail: str) -> None:
    keys = ["a0", *(f"c{n}" for n in range(1, prompt // 16))]
    assert _second(keys, prompt, hit=16)[1:] == [(16, prompt, "new", f"prefix_changed.{detail}", "assumed", "a-1")]


def test_the_beginning_of_what_went_before_is_no_change() -> None:
    """The last message was taken back: all blocks of the shorter prompt are known, and its last tokens tell nothing."""
    assert _second(OLD[:3], 50, hit=48) == [
        (0, 48, "hit", "provided.turn", "observed", "a-1"),
        (48, 50, "new", "first_seen.new_tokens", "derived", None),
    ]


def test_a_previous_turn_that_had_not_ended_proves_nothing() -> None:
    assert {row[3] for row in _second(["b0", "b1", "b2", "b3", "b4", "b5", "b6"], 120, start=1.5)} == {
        "first_seen.new_conversation"
    }


def test_the_answer_was_rendered_anew() -> None:
    """A snapshot at the answer's end was left; the next prompt has the old prompt whole, and other tokens after it."""
    scene = Scene(unit_tokens=1, slots=8)
    recorder, at = scene.recorder, scene.at
    first = recorder.turn("a-1", "a", prompt_tokens=100, prefix=["p"], prefix_at=[100], at_ns=at(0))
    first.admitted(0, at_ns=at(0))
    first.computed(0, 100, at_ns=at(1))
    first.first_token(at_ns=at(1))
    recorder.publish("p", 100, turn=first, at_ns=at(1)).end("committed", at_ns=at(1))
    first.finished("stop", output_tokens=20, at_ns=at(2))
    recorder.publish("p+answer", 120, turn=first, at_ns=at(2)).end("committed", at_ns=at(2))
    second = recorder.turn("a-2", "a", prompt_tokens=150, prefix=["p", "p+other", "q"], prefix_at=[100, 118, 150], at_ns=at(5))
    second.admitted(100, at_ns=at(5))
    second.computed(100, 150, at_ns=at(6))
    second.first_token(at_ns=at(6))
    second.finished("stop", output_tokens=1, at_ns=at(7))
    assert _causes(scene.store(), "a-2") == [
        (0, 100, "hit", "provided.turn", "observed", "a-1"),
        (100, 120, "new", "prefix_changed.output_rerendered", "derived", "a-1"),
        (120, 150, "new", "first_seen.new_tokens", "derived", None),
    ]
