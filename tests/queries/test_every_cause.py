"""Every detail of a cause that an engine's own word decides: that word in, that cause out. Blocks of 16 tokens."""

import re
from pathlib import Path

import pytest
from memory_store import MemoryStore, Scene

KEYS = [f"a{n}" for n in range(8)]
HERE = Path(__file__)


def first_cause(scene: Scene) -> str:
    """Of the first token of turn a-2."""
    (row,) = scene.store().rows("select cause from causes where turn_id = 'a-2' and start_token = 0")
    return str(row["cause"])


@pytest.mark.parametrize(
    "reason", ["slots", "memory", "tier_capacity", "lease_expired", "slot_reassigned", "reset", "by_request", "unspecified"]
)
def test_evicted(reason: str) -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.recorder.evicted(KEYS[:6], 16, reason=reason, at_ns=scene.at(5))
    scene.serve("a-2", "a", 140, KEYS, 10.0)
    assert first_cause(scene) == f"evicted.{reason}"


@pytest.mark.parametrize(
    ("outcome", "reason", "cause"),
    [
        ("skipped", "min_span", "not_published.skipped_min_span"),
        ("skipped", "busy", "not_published.skipped_busy"),
        ("skipped", "backlog", "not_published.skipped_backlog"),
        ("skipped", "output_not_cached", "not_published.output_not_cached"),
        ("skipped", None, "not_published.skipped_unspecified"),
        ("failed", "io", "not_published.failed"),
        ("cancelled", None, "not_published.cancelled"),
    ],
)
def test_not_published(outcome: str, reason: str | None, cause: str) -> None:
    scene = Scene()
    turn = scene.serve("a-1", "a", 100, KEYS[:6], 0.0)
    with scene.recorder.publish("a0", 16, turn=turn, at_ns=scene.at(1)) as publish:
        publish.end(outcome, reason, at_ns=scene.at(2))
    scene.serve("a-2", "a", 140, KEYS, 10.0)
    assert first_cause(scene) == cause


@pytest.mark.parametrize("reason", ["absent", "corrupt", "timeout", "partial", "cancelled", "stale", "unspecified"])
def test_restore_failed(reason: str) -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(5))
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=140, prefix=KEYS, prefix_at=16, at_ns=scene.at(10))
    turn.admitted(0, offered_tokens=96, tier="disk", at_ns=scene.at(10))
    turn.restore_started(96, tier="disk", at_ns=scene.at(10))
    turn.restore_finalized(False, 0, reason=None if reason == "unspecified" else reason, at_ns=scene.at(11))
    turn.computed(0, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished("stop", output_tokens=1, at_ns=scene.at(13))
    assert first_cause(scene) == f"restore_failed.{reason}"


@pytest.mark.parametrize(
    "reason",
    [
        "below_threshold",
        "backlog",
        "deadline",
        "quorum",
        "oversize",
        "higher_tier_hit",
        "incompatible",
        "key_mismatch",
        "unspecified",
    ],
)
def test_restore_skipped(reason: str) -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(5))
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=140, prefix=KEYS, prefix_at=16, at_ns=scene.at(10))
    turn.restore_skipped(reason, prefix_tokens=96, tier="disk", at_ns=scene.at(10))
    turn.admitted(0, at_ns=scene.at(10))
    turn.computed(0, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished("stop", output_tokens=1, at_ns=scene.at(13))
    assert first_cause(scene) == f"restore_skipped.{reason}"


@pytest.mark.parametrize("why", ["sliding_window", "recurrent_checkpoint", "checkpoint_ring", "after_abort", "unspecified"])
def test_state_not_restorable(why: str) -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.serve("a-2", "a", 140, KEYS, 10.0, admit={"matched_tokens": 96, "not_restorable": why})
    assert first_cause(scene) == f"state_not_restorable.{why}"


@pytest.mark.parametrize("how", ["by_request", "by_configuration"])
def test_disabled(how: str) -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.serve("a-2", "a", 140, KEYS, 10.0, cache_disabled=how)
    assert first_cause(scene) == f"disabled.{how}"


@pytest.mark.parametrize(("prompt", "detail"), [(40, "compaction"), (90, "truncation"), (140, "history_edited")])
def test_prefix_changed(prompt: int, detail: str) -> None:
    """The first block is the same."""
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.serve("a-2", "a", prompt, ["a0", *(f"x{n}" for n in range(1, prompt // 16))], 10.0, hit=16)
    (row,) = scene.store().rows("select cause from causes where turn_id = 'a-2' and start_token = 16")
    assert row["cause"] == f"prefix_changed.{detail}"


def test_every_cause_there_can_be_is_named_in_a_test() -> None:
    """By its full name or, in this file and its neighbours, by its detail in quotes."""
    texts = "".join(path.read_text() for path in sorted(HERE.parent.glob("test_*.py")))
    store = MemoryStore()
    known = [row["cause"] for row in store.rows("from cause_names()")]
    assert len(known) == 69
    assert [cause for cause in known if cause not in texts and f'"{cause.partition(".")[2]}"' not in texts] == []


def test_the_page_of_causes_has_them_all() -> None:
    """docs/causes.md names each, or its class with all that follows."""
    page = (HERE.parents[2] / "docs" / "causes.md").read_text()
    named: set[str] = set()
    for words in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) + re.findall(
        r"`(not_cache[^`]*|provided[^`]*|engine_fault[^`]*)`", page
    ):
        of = ""
        for word in re.findall(r"[\w.*]+", words):
            of = word.partition(".")[0] if not word.startswith(".") else of
            named.add(word if not word.startswith(".") else of + word)
    known = [row["cause"] for row in MemoryStore().rows("from cause_names()")]
    missing = [
        cause
        for cause in known
        if cause not in named and not any(cause.startswith(name.rstrip("*")) for name in named if name.endswith("*"))
    ]
    assert [cause for cause in missing if not cause.endswith(".unspecified")] == []
