"""One small scene for each cause. Keys are names: ``a0`` ends at token 16, ``a1`` at 32, and so on; the reuse unit is 16."""

from collections.abc import Callable, Sequence
from functools import cache

from memory_store import MemoryStore, Scene


def chain(name: str, count: int) -> list[str]:
    return [f"{name}{n}" for n in range(count)]


def first_turn(scene: Scene, keys: Sequence[str], prompt: int = 100) -> None:
    """Turn ``a-1``: 100 tokens, six blocks published."""
    scene.serve("a-1", "a", prompt, keys, 0.0, publish=keys)


def cold() -> Scene:
    scene = Scene()
    first_turn(scene, chain("a", 6))
    return scene


def hit_and_new_text() -> Scene:
    scene = Scene()
    first_turn(scene, chain("a", 6))
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0, hit=96)
    return scene


def evicted_for_slots() -> Scene:
    """Two slots, both taken; turn b-1 needs one while 90 % of the memory is free. a-1's snapshot goes."""
    scene = Scene(slots=2, pool_tokens=1000)
    a = scene.recorder
    turn = a.turn("a-1", conversation_id="a", prompt_tokens=96, prefix=["A96"], prefix_at=[96], at_ns=scene.at(0))
    turn.admitted(0, at_ns=scene.at(0.1))
    turn.computed(0, 96, at_ns=scene.at(1))
    turn.first_token(at_ns=scene.at(1))
    with a.publish("A96", tokens=96, turn=turn, at_ns=scene.at(1)) as publish:
        publish.end("committed", at_ns=scene.at(1.2))
    turn.finished(at_ns=scene.at(2), output_tokens=4)
    hit = a.turn("a-2", conversation_id="a", prompt_tokens=110, prefix=["A96"], prefix_at=[96], at_ns=scene.at(5))
    hit.admitted(96, at_ns=scene.at(5.1))
    hit.computed(96, 110, at_ns=scene.at(5.5))
    hit.first_token(at_ns=scene.at(5.5))
    hit.finished(at_ns=scene.at(6), output_tokens=4)
    other = a.turn("b-1", conversation_id="b", prompt_tokens=50, prefix=["B48"], prefix_at=[48], at_ns=scene.at(10))
    a.sample(free_slots=0, free_tokens=900, at_ns=scene.at(10))
    a.evicted("A96", 96, reason="slots", for_turn=other, policy="lru_leaf", at_ns=scene.at(10.4))
    other.admitted(0, at_ns=scene.at(10.5))
    other.computed(0, 50, at_ns=scene.at(11))
    other.first_token(at_ns=scene.at(11))
    other.finished(at_ns=scene.at(12))
    lost = a.turn("a-3", conversation_id="a", prompt_tokens=130, prefix=["A96"], prefix_at=[96], at_ns=scene.at(20))
    lost.admitted(0, at_ns=scene.at(20.2))
    lost.computed(0, 130, at_ns=scene.at(24))
    lost.first_token(at_ns=scene.at(24))
    lost.finished(at_ns=scene.at(25))
    return scene


def restored_from_host() -> Scene:
    """Evicted from the device for memory, still on the host."""
    scene = Scene(pool_tokens=160)
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.recorder.published(keys, 16, tier="host", at_ns=scene.at(2))
    other = scene.serve("b-1", "b", 120, chain("b", 7), 5.0)
    scene.recorder.evicted(keys, 16, reason="memory", for_turn=other, at_ns=scene.at(5.05))
    turn = scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )
    turn.admitted(0, offered_tokens=96, tier="host", at_ns=scene.at(10.1))
    turn.restore_started(96, tier="host", key="a5", ranks=2, at_ns=scene.at(10.1))
    turn.restore_finalized(valid_prefix_tokens=96, rank=0, at_ns=scene.at(10.5))
    turn.restore_finalized(valid_prefix_tokens=96, rank=1, at_ns=scene.at(10.6))
    turn.computed(96, 140, at_ns=scene.at(11))
    turn.first_token(at_ns=scene.at(11))
    turn.finished(at_ns=scene.at(12))
    return scene


def restore_failed() -> Scene:
    """96 tokens offered; 32 were good, then a page was corrupt."""
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.recorder.published(keys, 16, tier="disk", at_ns=scene.at(2))
    scene.recorder.evicted(keys, 16, reason="memory", at_ns=scene.at(3))
    turn = scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )
    turn.admitted(0, offered_tokens=96, tier="disk", at_ns=scene.at(10.1))
    turn.restore_started(96, tier="disk", key="a5", at_ns=scene.at(10.1))
    turn.restore_finalized(False, valid_prefix_tokens=32, reason="corrupt", at_ns=scene.at(10.6))
    turn.computed(32, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13))
    return scene


def restore_skipped() -> Scene:
    """All 96 tokens went from the device; the disk has 64 of them, fewer than the connector cares to load."""
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.recorder.published(keys[:4], 16, tier="disk", at_ns=scene.at(2))
    scene.recorder.evicted(keys, 16, reason="memory", at_ns=scene.at(3))
    turn = scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )
    turn.restore_skipped("min_retrieve", 64, tier="disk", key="a3", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.1))
    turn.computed(0, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13))
    return scene


def state_not_restorable() -> Scene:
    """96 tokens match; the last checkpoint of the recurrent state stands at 32."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    lacking = {"matched_tokens": 96, "not_restorable": "recurrent_checkpoint"}
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0, hit=32, admit=lacking)
    return scene


def other_slot() -> Scene:
    """The conversation came back to slot 0; its 96 tokens stand in slot 1, and nothing of them was evicted."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    turn = scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )
    turn.held_elsewhere("other_slot", 96, holder="1", at_ns=scene.at(10))
    turn.admitted(0, at_ns=scene.at(10.1))
    turn.computed(0, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13))
    return scene


def restore_preferred() -> Scene:
    """64 tokens were usable on the device, 96 were restored from disk instead."""
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.recorder.published(keys, 16, tier="disk", at_ns=scene.at(2))
    scene.recorder.evicted(keys[4:], 16, reason="memory", at_ns=scene.at(3))
    turn = scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )
    turn.admitted(0, offered_tokens=96, tier="disk", local_tokens=64, at_ns=scene.at(10.1))
    turn.restore_started(96, tier="disk", key="a5", at_ns=scene.at(10.1))
    turn.restore_finalized(valid_prefix_tokens=96, at_ns=scene.at(11))
    turn.computed(96, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13))
    return scene


def preempted() -> Scene:
    """48 of 100 tokens had been computed when b-1 took the room; nothing of it was found again."""
    scene = Scene()
    other = scene.recorder.turn("b-1", conversation_id="b", prompt_tokens=16, at_ns=scene.at(0))
    turn = scene.recorder.turn(
        "a-1", conversation_id="a", prompt_tokens=100, prefix=chain("a", 6), prefix_at=16, at_ns=scene.at(0)
    )
    turn.admitted(0, at_ns=scene.at(0.1))
    turn.computed(0, 48, at_ns=scene.at(0.5))
    turn.preempted(by=other, at_ns=scene.at(0.6))
    turn.retried("no_free_blocks", at_ns=scene.at(0.7))
    turn.admitted(0, at_ns=scene.at(3))
    turn.computed(0, 100, at_ns=scene.at(4))
    turn.first_token(at_ns=scene.at(4))
    turn.finished(at_ns=scene.at(5))
    return scene


def disabled() -> Scene:
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.serve("a-2", "a", 100, keys, 10.0, cache_disabled="by_request")
    return scene


def last_token() -> Scene:
    """The same 96 tokens again: the engine reuses five blocks and computes the sixth for its last token."""
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys, 96)
    scene.serve("a-2", "a", 96, keys, 10.0, hit=80)
    return scene


def partial_unit() -> Scene:
    """Keys every 16 tokens, but this engine matches in units of 64."""
    scene = Scene(unit_tokens=64)
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0, hit=64)
    return scene


def below_unit() -> Scene:
    scene = Scene(unit_tokens=128)
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0)
    return scene


def publish_pending() -> Scene:
    """a-1's snapshot was still being captured when a-2 came."""
    scene = Scene()
    first = scene.serve("a-1", "a", 96, chain("a", 6), 0.0)
    publish = scene.recorder.publish("a0", tokens=16, turn=first, at_ns=scene.at(1))
    scene.serve("a-2", "a", 140, chain("a", 8), 3.0)
    publish.end("committed", at_ns=scene.at(5))
    return scene


def publish_skipped() -> Scene:
    scene = Scene()
    first = scene.serve("a-1", "a", 96, chain("a", 6), 0.0)
    scene.recorder.publish("a0", tokens=16, turn=first, at_ns=scene.at(1)).skip("busy", at_ns=scene.at(1))
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0)
    return scene


def incomplete() -> Scene:
    """A restore was offered and its end never seen; then a step ran beyond what is known."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    turn = scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )
    turn.admitted(32, offered_tokens=64, tier="disk", at_ns=scene.at(10.1))
    turn.computed(96, 140, at_ns=scene.at(11))
    turn.first_token(at_ns=scene.at(11))
    turn.finished(at_ns=scene.at(12))
    return scene


def slow_queue() -> Scene:
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys)
    scene.serve("a-2", "a", 100, keys, 10.0, hit=96, wait=7.5, first=18.0)
    return scene


def lease_and_session() -> Scene:
    """64 tokens kept by the session, 32 more under a lease."""
    scene = Scene()
    keys = chain("a", 6)
    scene.serve("a-1", "a", 54, keys[:3], 0.0, publish=keys[:3], session="s1")
    scene.serve("x-1", "x", 96, keys, 3.0, hit=48, publish=keys[3:], parent=keys[2])
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0, hit=64, compute_from=96, admit={"lease_tokens": 32}, session="s1")
    return scene


def chain_broken_above() -> Scene:
    """Block a2 was evicted; a3 to a5 are still there, but a prefix is usable only as far as it is whole."""
    scene = Scene()
    scene.serve("a-1", "a", 64, chain("a", 4), 0.0, publish=chain("a", 4))
    scene.serve("a-2", "a", 96, chain("a", 6), 3.0, hit=64, publish=["a4", "a5"], parent="a3")
    other = scene.serve("b-1", "b", 40, chain("b", 2), 6.0)
    scene.recorder.evicted(["a2"], 16, reason="memory", for_turn=other, at_ns=scene.at(6.05))
    scene.serve("a-3", "a", 140, chain("a", 8), 10.0, hit=32)
    return scene


def no_event_says_why() -> Scene:
    """The key was published and never evicted, and still it was no hit."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0, hit=0)
    return scene


# scene -> the turn to look at
SCENES: dict[str, tuple[Callable[[], Scene], str]] = {
    "cold": (cold, "a-1"),
    "hit_and_new_text": (hit_and_new_text, "a-2"),
    "evicted_for_slots": (evicted_for_slots, "a-3"),
    "restored_from_host": (restored_from_host, "a-2"),
    "restore_failed": (restore_failed, "a-2"),
    "restore_skipped": (restore_skipped, "a-2"),
    "state_not_restorable": (state_not_restorable, "a-2"),
    "other_slot": (other_slot, "a-2"),
    "restore_preferred": (restore_preferred, "a-2"),
    "preempted": (preempted, "a-1"),
    "disabled": (disabled, "a-2"),
    "last_token": (last_token, "a-2"),
    "partial_unit": (partial_unit, "a-2"),
    "below_unit": (below_unit, "a-2"),
    "publish_pending": (publish_pending, "a-2"),
    "publish_skipped": (publish_skipped, "a-2"),
    "incomplete": (incomplete, "a-2"),
    "slow_queue": (slow_queue, "a-2"),
    "lease_and_session": (lease_and_session, "a-2"),
    "chain_broken_above": (chain_broken_above, "a-3"),
    "no_event_says_why": (no_event_says_why, "a-2"),
}


@cache
def store_of(name: str) -> tuple[MemoryStore, str]:
    """The scene's store, made once, and the turn to look at."""
    make, turn = SCENES[name]
    return make().store(), turn


def two_slots(policy: str = "lru_leaf", seconds_each: float = 0.0, run: str | None = None, **facts: object) -> Scene:
    """Conversation A leaves 1,000 tokens; B and C take the two slots; A comes back to nothing. Every turn has its first token after
    a second, or ``seconds_each`` of its tokens later."""
    scene = Scene(slots=2, pool_tokens=10_000, unit_tokens=1, policy=policy, **facts)
    recorder, at = scene.recorder, scene.at

    def turn(name: str, of: str, key: str, tokens: int, start: float, hit: int, gone: str | None) -> None:
        begun = recorder.turn(name, of, prompt_tokens=tokens, prefix=[key], prefix_at=[tokens], at_ns=at(start), run=run)
        recorder.sample(0 if gone else 1, 9_000, at_ns=at(start))
        begun.admitted(hit, at_ns=at(start + 0.1))
        done = at(start + 1 + seconds_each * tokens)
        begun.computed(hit, tokens, at_ns=done)
        if gone:
            recorder.evicted([gone], tokens_each=1_000, reason="slots", for_turn=begun, policy=policy, at_ns=done)
        publish = recorder.publish(key, tokens, turn=begun, at_ns=done)
        publish.end("committed", at_ns=done)
        begun.first_token(at_ns=done)
        begun.finished("stop", output_tokens=1, at_ns=done + 10**9)

    turn("A-t1", "A", "4c", 1_000, 0, 0, None)
    turn("B-t1", "B", "0a", 10, 10, 0, None)
    turn("C-t1", "C", "0b", 20, 20, 0, "4c")
    turn("A-t2", "A", "4c", 1_000, 30, 0, "0a")
    return scene
