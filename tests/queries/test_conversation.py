"""A conversation turn by turn, and turns without an id linked by their prefix: whole input, whole output."""

import random
from typing import Any

import pytest
from memory_store import MemoryStore, Scene
from scenes import restored_from_host

LINKS = "select turn_id, conversation_id, linked_by, previous_turn_id, shared_key from linked_turns order by start_ns"


def links(store: MemoryStore) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in store.rows(LINKS)]


def test_agents_without_ids_are_linked_by_what_they_continue() -> None:
    """Two agents share a system prompt ``s``. One's answer is published as ``a3``; it is forked, and asked again as it was."""
    scene = Scene()
    serve = scene.serve
    serve("a-1", None, 48, ["s", "a1", "a2"], 0, publish=["s", "a1", "a2", "a3"])
    serve("b-1", None, 32, ["s", "b1"], 10, hit=16, publish=["b1"], parent="s")
    serve("a-2", None, 96, ["s", "a1", "a2", "a3", "a4", "a5"], 20, hit=64, publish=["a4", "a5"], parent="a3")
    serve("b-2", None, 48, ["s", "b1", "b2"], 30, hit=32)
    serve("a-fork", None, 96, ["s", "a1", "a2", "a3", "a4", "f5"], 40, hit=80)  # up to the middle of what a-2 said
    serve("a-2 again", None, 96, ["s", "a1", "a2", "a3", "a4", "a5"], 50, hit=80)
    serve("c-1", None, 48, ["s", "a1", "c2"], 60, hit=32)  # shares a beginning with a-1, and continues nothing
    assert links(scene.store()) == [
        ("a-1", "derived:a-1", "prefix", None, None),
        ("b-1", "derived:b-1", "prefix", None, None),
        ("a-2", "derived:a-1", "prefix", "a-1", "a3"),
        ("b-2", "derived:b-1", "prefix", "b-1", "b1"),
        ("a-fork", "derived:a-1", "prefix", "a-1", "a3"),
        ("a-2 again", "derived:a-1", "prefix", "a-2", "a5"),
        ("c-1", "derived:c-1", "prefix", None, None),
    ]


def test_as_in_a_mooncake_trace_the_last_block_is_partly_filled() -> None:
    """Blocks of 16, the last of a prompt shorter and with a key of its own, which the next prompt does not have."""
    scene = Scene()
    serve = scene.serve

    def asks(name: str, keys: list[str], prompt: int, start: float) -> None:
        ends = [*range(16, prompt, 16), prompt]
        turn = scene.recorder.turn(name, prompt_tokens=prompt, prefix=keys, prefix_at=ends, at_ns=scene.at(start))
        turn.admitted(0, at_ns=scene.at(start))
        turn.computed(0, prompt, at_ns=scene.at(start + 1))
        turn.first_token(at_ns=scene.at(start + 1))
        turn.finished(at_ns=scene.at(start + 2), output_tokens=1)

    asks("1", ["0", "1", "2", "1end"], 50, 0)
    asks("2", ["0", "2end"], 20, 10)  # only the system block is whole, and it was there before: nothing continues this one
    asks("3", ["0", "1", "2", "3", "4", "3end"], 90, 20)
    asks("4", ["0", "other", "4end"], 40, 30)
    asks("5", ["0", "1", "2", "3", "4", "5", "6"], 112, 40)
    serve("6", None, 0, [], 50)
    assert links(scene.store()) == [
        ("1", "derived:1", "prefix", None, None),
        ("2", "derived:2", "prefix", None, None),
        ("3", "derived:1", "prefix", "1", "2"),
        ("4", "derived:4", "prefix", None, None),
        ("5", "derived:1", "prefix", "3", "4"),
        ("6", None, None, None, None),
    ]


def test_an_id_counts_for_more_than_a_prefix() -> None:
    scene = Scene()
    scene.serve("a-1", "a", 32, ["a0", "a1"], 0)
    scene.serve("a-2", "a", 32, ["x0", "x1"], 10)
    scene.serve("n-1", None, 48, ["a0", "a1", "n2"], 20)
    scene.serve("n-2", None, 64, ["a0", "a1", "n2", "n3"], 30)
    assert links(scene.store()) == [
        ("a-1", "a", "id", None, None),
        ("a-2", "a", "id", "a-1", None),
        ("n-1", "a", "prefix", "a-1", "a1"),
        ("n-2", "a", "prefix", "n-1", "n2"),
    ]


def test_a_prompt_that_was_changed_is_linked_by_what_it_still_shares() -> None:
    """A client changes the last block of its first prompt with every turn; another conversation shares the system prompt ``s``."""
    scene = Scene()
    serve = scene.serve
    serve("a-1", None, 64, ["s", "a1", "a2", "a3"], 0, message_count=2)
    serve("b-1", None, 32, ["s", "b1"], 10, message_count=4)  # a quarter of a-1's
    serve("c-1", None, 64, ["s", "a1", "a2", "c3"], 15, message_count=2)  # three quarters, and no more messages: another one
    serve("d-1", None, 64, ["s", "a1", "a2", "d3"], 20, message_count=4)  # c-1 left it there, too: whose is it?
    serve("e-1", None, 64, ["e", "e1", "e2", "e3"], 30, message_count=2)
    serve("e-2", None, 96, ["e", "e1", "e2", "x3", "x4", "x5"], 40, message_count=4)
    serve("e-3", None, 112, ["e", "e1", "e2", "y3", "y4", "y5", "y6"], 50, message_count=6)
    serve("e-4", None, 128, ["e", "e1", "e2", "y3", "y4", "y5", "y6", "y7"], 60, message_count=8)
    serve("e-5", None, 64, ["e", "e1", "e2", "z3"], 70)  # nobody says how many messages
    assert links(scene.store()) == [
        ("a-1", "derived:a-1", "prefix", None, None),
        ("b-1", "derived:b-1", "prefix", None, None),
        ("c-1", "derived:c-1", "prefix", None, None),
        ("d-1", "derived:d-1", "prefix", None, None),
        ("e-1", "derived:e-1", "prefix", None, None),
        ("e-2", "derived:e-1", "shared_prefix", "e-1", "e2"),
        ("e-3", "derived:e-1", "shared_prefix", "e-2", "e2"),
        ("e-4", "derived:e-1", "prefix", "e-3", "y6"),
        ("e-5", "derived:e-5", "prefix", None, None),
    ]


def test_what_is_shared_with_two_conversations_links_to_neither() -> None:
    """Half of a-1 is shared with b-1, too: a prompt that was compacted to that half could be either's."""
    scene = Scene()
    scene.serve("a-1", None, 64, ["s", "t", "a2", "a3"], 0, message_count=2)
    scene.serve("a-2", None, 96, ["s", "t", "a2", "a3", "a4", "a5"], 10, message_count=4)
    scene.serve("first", None, 48, ["s", "t", "x2"], 15, message_count=3)  # nobody else shares it as yet
    scene.serve("b-1", None, 64, ["s", "t", "b2", "b3"], 20, message_count=2)
    scene.serve("second", None, 48, ["s", "t", "y2"], 30, message_count=3)
    rows = scene.store().rows(
        "select turn_id, conversation_id, linked_by, previous_turn_id from linked_turns order by start_ns"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("a-1", "derived:a-1", "prefix", None),
        ("a-2", "derived:a-1", "prefix", "a-1"),
        ("first", "derived:a-1", "shared_prefix", "a-2"),
        ("b-1", "derived:b-1", "prefix", None),
        ("second", "derived:second", "prefix", None),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_is_linked_as_a_plain_comparison_of_prompts_says(seed: int) -> None:
    draw = random.Random(seed)
    scene = Scene()
    said: list[tuple[str, list[str], list[str]]] = []  # turn, prompt, answer
    expected: dict[str, str | None] = {}
    for number in range(60):
        name = f"t{number}"
        begin = ["s"]
        if said and draw.random() < 0.8:
            _, prompt, answer = draw.choice(said)
            whole = prompt + answer
            begin = whole if draw.random() < 0.7 else whole[: draw.randint(1, len(whole))]
        keys = begin + [f"{name}.{at}" for at in range(draw.randint(0, 3))]
        answer = [f"{name}.answer{at}" for at in range(draw.randint(0, 2))]
        # The longest beginning of this prompt that is a whole earlier prompt, or reaches into its answer; of equals the latest.
        # What ends within a shared prompt and was there before counts for nobody: here every prompt ends with its last key.
        candidates: list[tuple[int, int, str]] = []
        for at, (other, prompt, after) in enumerate(said):
            if keys[: len(prompt)] == prompt:
                into = next((n for n in range(len(after), 0, -1) if keys[: len(prompt) + n] == prompt + after[:n]), 0)
                candidates.append((len(prompt) + into, at, other))
        expected[name] = max(candidates)[2] if candidates else None
        scene.serve(name, None, 16 * len(keys), keys, 10.0 * number, publish=keys + answer)
        said.append((name, keys, answer))
    found = {row["turn_id"]: row["previous_turn_id"] for row in scene.store().rows("from linked_turns")}
    assert found == expected


def test_a_conversation_turn_by_turn() -> None:
    """a-1 leaves 96 of its 100 tokens; a-2 has 140 and gets 96 from the host."""
    scene = restored_from_host()
    store = scene.store()
    rows = store.rows("select * exclude (started_at, engine, replica) from conversation_of('a')")
    first, second = rows
    assert first == {
        "turn": 1,
        "turn_id": "a-1",
        "prompt_tokens": 100,
        "growth_tokens": None,
        "cached_ratio": 0.0,
        "hit_ratio": 0.0,
        "restored_ratio": 0.0,
        "recomputed_ratio": 0.0,
        "new_ratio": 1.0,
        "ttft_seconds": 1.0,
        "total_seconds": 2.0,
        "verdict": "cold",
        "main_cause": "first_seen.new_conversation",
        "computed_ratio": None,
        "unobserved_ratio": 0.0,
        "linked_by": "id",
        "previous_turn": None,
        "incomplete_because": None,
    }
    assert (second["growth_tokens"], second["cached_ratio"], second["restored_ratio"], second["new_ratio"]) == (
        40,
        96 / 140,
        96 / 140,
        44 / 140,
    )
    assert (second["verdict"], second["main_cause"], second["previous_turn"]) == ("restored", "evicted.memory", "a-1")


def test_the_form_of_the_reports_trace() -> None:
    """turn, prompt_tokens, cached_ratio, latency_s of agent-trace.csv: cached is hit or restored, latency is the whole time."""
    store = restored_from_host().store()
    trace = store.query(
        "select turn, prompt_tokens, round(cached_ratio, 2) as cached_ratio, total_seconds as latency_s from conversation_of('a')"
    )
    assert trace.to_pylist() == [
        {"turn": 1, "prompt_tokens": 100, "cached_ratio": 0.0, "latency_s": 2.0},
        {"turn": 2, "prompt_tokens": 140, "cached_ratio": 0.69, "latency_s": 2.0},
    ]


def test_an_incomplete_turn_is_shown_and_its_cached_share_is_not_known() -> None:
    scene = Scene()
    scene.serve("a-1", "a", 96, ["k"], 0)
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=100, at_ns=scene.at(10))
    turn.admitted(32, offered_tokens=32, tier="disk", at_ns=scene.at(10))
    turn.finished("abort", at_ns=scene.at(11))
    rows = scene.store().rows("select turn, growth_tokens, cached_ratio, unobserved_ratio, verdict from conversation_of('a')")
    assert rows[1] == {"turn": 2, "growth_tokens": 4, "cached_ratio": None, "unobserved_ratio": 1.0, "verdict": "incomplete"}
