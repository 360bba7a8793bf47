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


def test_the_same_conversation_in_another_run() -> None:
    """A benchmark begins its conversations anew: what the first run said is not what the second one changes."""
    assert {row[3] for row in _second(["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"], 130, run="other")} == {
        "first_seen.new_conversation"
    }


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


def _messages(*contents: str, roles: str = "sua") -> list[tuple[str, None, str]]:
    named = {"s": "system", "u": "user", "a": "assistant", "t": "tools"}
    return [(content, None, named[roles[min(at, len(roles) - 1)]]) for at, content in enumerate(contents)]


def _changed(before: Any, after: Any, keys: list[str], prompt: int = 130) -> list[tuple[Any, ...]]:
    """The first changed span of a second turn whose prompt shares the first of ``keys`` with the one before it."""
    scene = Scene()
    scene.serve("a-1", "a", 100, OLD, 0.0, publish=OLD, messages=before)
    scene.serve("a-2", "a", prompt, keys, 10.0, messages=after)
    rows = scene.store().rows(
        "select cause, confidence, changed_message, evidence[3] as third, missing_evidence from causes "
        "where turn_id = 'a-2' and cause like 'prefix_changed%' order by start_token limit 1"
    )
    return [tuple(row.values()) for row in rows]


NEW = [f"b{n}" for n in range(8)]


def test_the_first_message_that_is_not_the_same() -> None:
    before = _messages("You are kind.", "Hello", "Hello!")
    header = _messages("You are kind. It is 10:02.", "Hello", "Hello!", "And?")
    assert _changed(before, header, NEW) == [
        ("prefix_changed.header", "derived", "message 1 (system)", "message 1 (system)", None)
    ]
    edited = _messages("You are kind.", "Hello", "Good day!", "And?")
    assert _changed(before, edited, [*OLD[:2], *NEW[2:]]) == [
        ("prefix_changed.history_edited", "derived", "message 3 (assistant)", "message 3 (assistant)", None)
    ]


def test_tools_that_changed_are_told_apart() -> None:
    before, after = _messages("{a, b}", "You are kind.", roles="ts"), _messages("{b, a}", "You are kind.", "Hi", roles="tsu")
    assert _changed(before, after, NEW) == [("prefix_changed.tools", "derived", "message 1 (tools)", "message 1 (tools)", None)]


def test_messages_that_were_dropped() -> None:
    before, after = _messages("You are kind.", "Hello", "Hello!"), _messages("You are kind.", "Hello")
    keys = ["a0", *(f"c{n}" for n in range(1, 5))]
    assert _changed(before, after, keys, 90) == [
        (
            "prefix_changed.truncation",
            "assumed",
            "message 3 (assistant)",
            "message 3 (assistant)",
            "who made the prompt shorter, and why",
        )
    ]


def test_messages_that_are_all_the_same_and_one_turn_without() -> None:
    same = _messages("You are kind.", "Hello", "Hello!")
    assert _changed(same, [*same, ("More", 128, "user")], NEW) == [("prefix_changed.header", "derived", None, None, None)]
    missing = "digests of the messages: which one is not the same"
    assert _changed(same, (), NEW) == [("prefix_changed.header", "derived", None, None, missing)]


def test_nothing_of_what_messages_say_leaves_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []
    for secret in ("", "one", "two"):
        monkeypatch.setenv("TURNLENS_HASH_KEY", secret)
        scene = Scene()
        scene.serve("a-1", "a", 100, OLD, 0.0, messages=[("a secret", 40, "user"), (b"\x01", None, None)] * 600)
        (row,) = scene.store().rows(
            "select messages_digest, messages_end_tokens, messages_role, message_count from spans where name = 'turn'"
        )
        assert row["message_count"] == 1_200
        assert (row["messages_end_tokens"][:2], row["messages_role"][:2]) == ([40, 0], ["user", ""])
        assert len(row["messages_digest"]) == 1_024
        assert all(len(digest) == 32 for digest in row["messages_digest"])
        found.append(row["messages_digest"][:2])
    assert len({tuple(pair) for pair in found}) == 3


def test_nonsense_for_messages_costs_nothing_else() -> None:
    for nonsense in ("text", [1], [("a", "b", "c")], [("\ud800", None, None), (5, 1, 1)], 7):
        scene = Scene()
        scene.serve("a-1", "a", 100, OLD, 0.0, messages=nonsense)
        (row,) = scene.store().rows("select complete, messages_digest from spans where name = 'turn'")
        assert tuple(row.values()) == (True, None)


def test_the_report_names_the_message() -> None:
    from turnlens.queries.ranges import Range
    from turnlens.queries.reporting import report

    scene = Scene()
    for n in range(3):
        keys = [f"{n}k{i}" for i in range(8)]
        scene.serve(f"a-{n}", "a", 128, keys, 10.0 * n, publish=keys, messages=_messages(f"It is 10:0{n}.", "Hello"))
    store: Any = scene.store()
    advice = [one for one in report(store, Range())["advice"] if one.evidence.startswith("prefix_changed")]
    assert [one.evidence for one in advice] == [
        "prefix_changed.timestamp: 2 turns of 1 conversation; first message 1 (system) in 2 of 2"
    ]


def test_only_the_time_changed() -> None:
    before = _messages("You are kind. It is Monday, November 30th 2026, 10:02.", "Hello", "Hello!")
    after = _messages("You are kind. It is Tuesday, December 1st 2026, 9:15 PM.", "Hello", "Hello!", "And?")
    assert _changed(before, after, NEW) == [
        ("prefix_changed.timestamp", "derived", "message 1 (system)", "message 1 (system)", None)
    ]
    more = _messages("You are kind. It is Tuesday, December 1st 2026, 9:15 PM. Be brief.", "Hello", "Hello!", "And?")
    assert _changed(before, more, NEW)[0][0] == "prefix_changed.header"


def test_thinking_that_was_left_out() -> None:
    before = _messages("You are kind.", "Hello", "<think>\nA greeting.\n</think>\n\nHello!", "More", roles="suau")
    after = _messages("You are kind.", "Hello", "Hello!", "More", "Yes", "And?", roles="suauau")
    keys = [*OLD[:2], *NEW[2:]]
    assert _changed(before, after, keys) == [
        ("prefix_changed.thinking_stripped", "derived", "message 3 (assistant)", "message 3 (assistant)", None)
    ]
    other = _messages("You are kind.", "Hello", "Good day!", "More", "Yes", "And?", roles="suauau")
    assert _changed(before, other, keys)[0][0] == "prefix_changed.history_edited"


def test_another_namespace() -> None:
    """The same text under another salt: its keys are not the same. Only a digest of the salt is kept."""
    scene = Scene()
    scene.serve("a-1", "a", 100, OLD, 0.0, publish=OLD, namespace="salt one")
    scene.serve("a-2", "a", 130, NEW, 10.0, namespace="salt two")
    scene.serve("a-3", "a", 130, NEW, 20.0, hit=128, namespace="salt two")
    store = scene.store()
    rows = store.rows("select turn_id, main_cause from turns order by 1")
    assert [tuple(row.values()) for row in rows] == [
        ("a-1", "first_seen.new_conversation"),
        ("a-2", "prefix_changed.namespace"),
        ("a-3", "provided.turn"),
    ]
    (first, second, third) = store.rows("select namespace from spans where name = 'turn' order by turn_id")
    assert first != second == third
    assert len(first["namespace"]) == 32
