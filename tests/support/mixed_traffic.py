"""Recorded traffic in which everything happens: the spans of hand-made scenes, and of small engines with little room.

Each is a list of finished spans in the order in which they left their recorders. Ids, times and engine starts are the same
every time.
"""

import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import memory_store
from memory_store import START_NS, CountingIds, MemoryStore, Scene
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from scenes import SCENES, chain, first_turn, two_slots

from turnlens.tracing import Turn
from turnlens.tracing.engines.reference.prompts import Message
from turnlens.tracing.engines.reference.scripts import Beat, Script
from turnlens.tracing.engines.reference.settings import EngineConfig, StoreConfig
from turnlens.tracing.engines.reference.workload import Conversations

Spans = Sequence[ReadableSpan]
Opened = Callable[[], AbstractContextManager[MemoryStore]]
_HOUR_NS = 3_600 * 10**9


def recorded(makers: Iterable[Callable[[], Scene]], first: int = 1) -> Spans:
    """What the scenes recorded. Each is an engine start of its own, an hour after the one before, with ids of its own. The first
    has this number."""
    spans: list[ReadableSpan] = []
    ids, starts = CountingIds(first << 16), count(first)
    with patch("turnlens.tracing.resource.uuid.uuid4", lambda: UUID(int=next(starts))):
        for hour, make in enumerate(makers, first):
            with patch.multiple(memory_store, START_NS=START_NS + hour * _HOUR_NS, CountingIds=lambda: ids):
                scene = make()
                scene.spans()
                scene.recorder.close()  # what is still open then is sent, too
            spans += scene.exporter.get_finished_spans()
    return spans


# -- scenes ---------------------------------------------------------------------------------------------------------------


def changed_prompts() -> Scene:
    """Four conversations whose second prompt does not continue the first, and whose third continues the second."""
    scene = Scene()
    for second, (name, kept, prompt) in enumerate((("header", 0, 130), ("edit", 2, 130), ("cut", 1, 90), ("fold", 1, 48))):
        at = 100.0 * second
        old = chain(f"{name}-a", 6)
        new = [*old[:kept], *chain(f"{name}-b", 12)]
        scene.serve(f"{name}-1", name, 100, old, at, publish=old)
        scene.serve(f"{name}-2", name, prompt, new[: prompt // 16], at + 10, hit=16 * kept)
        scene.serve(f"{name}-3", name, prompt + 40, new[: (prompt + 40) // 16], at + 20)
    return scene


def answer_rendered_anew() -> Scene:
    """A snapshot at the answer's end was left; the next prompt has other tokens there."""
    scene = Scene(unit_tokens=1, slots=8)
    recorder, at = scene.recorder, scene.at
    first = recorder.turn("a-1", "a", prompt_tokens=100, prefix=["p"], prefix_at=[100], at_ns=at(0))
    _serve(scene, first, 0, 100, 0.0)
    recorder.publish("p", 100, turn=first, at_ns=at(1)).end("committed", at_ns=at(1))
    first.finished("stop", output_tokens=20, at_ns=at(2))
    recorder.publish("p+answer", 120, turn=first, at_ns=at(2)).end("committed", at_ns=at(2))
    second = recorder.turn("a-2", "a", prompt_tokens=150, prefix=["p", "p+other", "q"], prefix_at=[100, 118, 150], at_ns=at(5))
    _serve(scene, second, 100, 150, 5.0)
    second.finished("stop", output_tokens=1, at_ns=at(7))
    return scene


def without_conversation_ids() -> Scene:
    """Prompts that go on and say so by their keys only; a fork, and a stranger with the same beginning."""
    scene = Scene()
    keys = chain("a", 12)
    scene.serve("u-1", None, 64, keys[:4], 0.0, publish=keys[:4])
    scene.serve("u-2", None, 128, keys[:8], 10.0, hit=64, publish=keys[4:8], parent=keys[3])
    scene.serve("u-3", None, 192, keys, 20.0, hit=128)
    scene.serve("fork", None, 128, [*keys[:4], *chain("f", 4)], 30.0, hit=64)
    scene.serve("stranger", None, 96, [*keys[:2], *chain("s", 4)], 40.0, hit=32)
    return scene


def what_times_contradict() -> Scene:
    """Six turns of 2,700 tokens at 2,700 a second, and one that says so many were computed in no time."""
    scene = Scene()
    for turn in range(7):
        keys = chain(f"{turn}:", 2_700 // 16)
        scene.serve(f"q-{turn}", f"c{turn}", 2_700, keys, 10.0 * turn, first=10.0 * turn + (0.14 if turn == 3 else 1.1))
    return scene


def called(scene: Scene, usage: dict[str, int]) -> None:
    """Turn a-1 leaves 96 tokens. a-2 asks for 200 and finds them; its caller notes a usage in a span of its own."""
    keys = chain("a", 12)
    scene.serve("a-1", "a", 100, keys[:6], 0.0, publish=keys[:6])
    provider = TracerProvider(resource=Resource({"service.name": "client"}), id_generator=scene.ids, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(scene.exporter))
    span = provider.get_tracer("client").start_span("chat", start_time=scene.at(9.9), attributes=usage)
    context = span.get_span_context()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
    scene.serve("a-2", "a", 200, keys, 10.0, hit=96, traceparent=parent)
    scene.spans()
    span.end(end_time=scene.at(13))


def what_usages_contradict() -> Scene:
    """A caller was told that nothing had been cached."""
    scene = Scene()
    called(scene, {"gen_ai.usage.input_tokens": 200, "gen_ai.usage.cache_read.input_tokens": 0})
    return scene


def corrected_and_unfinished() -> Scene:
    """A step comes after the first turn's end; the second is at work when the recorder closes."""
    scene = Scene()
    turn = scene.serve("a-1", "a", 100, chain("a", 6), 0.0, publish=chain("a", 6))
    turn.computed(90, 100, at_ns=scene.at(5))
    open_turn = scene.recorder.turn("a-2", "a", prompt_tokens=100, prefix=chain("a", 6), prefix_at=16, at_ns=scene.at(10))
    open_turn.admitted(96, at_ns=scene.at(10.1))
    return scene


def lives_of_a_key() -> Scene:
    """Gone for memory, computed and published again, gone with a reset; then a publish that is skipped, fails, is cancelled."""
    scene = Scene(pool_tokens=1_000)
    recorder, at = scene.recorder, scene.at
    keys = chain("a", 6)
    first_turn(scene, keys)
    recorder.publish("a0", 16, at_ns=at(1.5)).skip("present", at_ns=at(1.5))
    for turn, (reason, start) in enumerate((("memory", 10.0), ("reset", 20.0)), 2):
        other = scene.serve(f"b-{turn}", f"b{turn}", 40, chain(f"b{turn}:", 2), start)
        recorder.evicted(keys, 16, reason=reason, for_turn=other if reason == "memory" else None, at_ns=at(start + 0.2))
        scene.serve(f"a-{turn}", "a", 140, chain("a", 8), start + 3, publish=keys if reason == "memory" else ())
    for turn, outcome in enumerate(("skipped", "failed", "cancelled"), 4):
        start = 10.0 * turn
        recorder.publish("a0", 16, at_ns=at(start)).end(outcome, "busy", at_ns=at(start + 0.5))
        scene.serve(f"a-{turn}", "a", 140, chain("a", 8), start + 3)
    return scene


def evicted_twice() -> Scene:
    """Block a1 went for memory, was brought again by another turn, and went on request."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    other = scene.serve("b-1", "b", 40, chain("b", 2), 4.0)
    scene.recorder.evicted(["a1"], 16, reason="memory", for_turn=other, at_ns=scene.at(4.05))
    scene.serve("c-1", "c", 160, [*chain("a", 2), *chain("c", 8)], 6.0, hit=16, publish=["a1"], parent="a0")
    scene.recorder.evicted(["a1"], 16, reason="by_request", at_ns=scene.at(9))
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0, hit=16)
    return scene


def broken_twice() -> Scene:
    """Block a2 of a-1 went for memory, a4 of a-2 with a reset."""
    scene = Scene()
    scene.serve("a-1", "a", 64, chain("a", 4), 0.0, publish=chain("a", 4))
    scene.serve("a-2", "a", 96, chain("a", 6), 3.0, hit=64, publish=["a4", "a5"], parent="a3")
    other = scene.serve("b-1", "b", 40, chain("b", 2), 6.0)
    scene.recorder.evicted(["a2"], 16, reason="memory", for_turn=other, at_ns=scene.at(6.05))
    scene.recorder.evicted(["a4"], 16, reason="reset", at_ns=scene.at(7))
    scene.serve("a-3", "a", 140, chain("a", 8), 10.0, hit=32)
    return scene


def publish_in_time_for_the_next() -> Scene:
    """What a-1 left went for memory. b-1 brings the same again, and its publish ends while a-2 computes."""
    scene = Scene()
    keys = chain("a", 6)
    first_turn(scene, keys)
    other = scene.serve("x-1", "x", 40, chain("x", 2), 4.0)
    scene.recorder.evicted(keys, 16, reason="memory", for_turn=other, at_ns=scene.at(4.05))
    turn = scene.serve("b-1", "b", 96, keys, 6.0)
    publish = scene.recorder.publish("a0", tokens=16, turn=turn, at_ns=scene.at(8))
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0)
    publish.end("committed", at_ns=scene.at(10.5))
    return scene


def _gone(scene: Scene) -> Turn:
    """Turn a-1 left six blocks, which went for memory when b-1 came. Returns a-2, which asks for them."""
    keys = chain("a", 6)
    first_turn(scene, keys)
    other = scene.serve("b-1", "b", 40, chain("b", 2), 4.0)
    scene.recorder.evicted(keys, 16, reason="memory", for_turn=other, at_ns=scene.at(4.05))
    return scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10)
    )


def _end(scene: Scene, turn: Turn, start: int, second: float) -> None:
    turn.computed(start, 140, at_ns=scene.at(second))
    turn.first_token(at_ns=scene.at(second))
    turn.finished("stop", output_tokens=10, at_ns=scene.at(second + 1))


def restored_at_the_second_try() -> Scene:
    """Nothing of the first restore is valid; the second one, of less, succeeds. What it leaves out was evicted."""
    scene = Scene()
    turn, at = _gone(scene), scene.at
    for second, tokens, valid in ((10.1, 96, 0), (11.1, 32, 32)):
        turn.admitted(0, offered_tokens=tokens, tier="disk", at_ns=at(second))
        turn.restore_started(tokens, tier="disk", at_ns=at(second))
        turn.restore_finalized(valid > 0, valid, reason=None if valid else "corrupt", at_ns=at(second + 0.5))
    _end(scene, turn, 32, 13)
    return scene


def not_restored_and_nothing_found() -> Scene:
    """The restore that the first admission offered fails; the second admission offers nothing."""
    scene = Scene()
    turn, at = _gone(scene), scene.at
    turn.admitted(0, offered_tokens=96, tier="disk", at_ns=at(10.1))
    turn.restore_started(96, tier="disk", at_ns=at(10.1))
    turn.restore_finalized(False, 0, reason="absent", at_ns=at(10.5))
    turn.admitted(0, at_ns=at(10.6))
    _end(scene, turn, 0, 12)
    return scene


def gone_again_while_preempted() -> Scene:
    """Another turn brings the blocks back while a-2 waits to be admitted again, and a reset takes them."""
    scene = Scene()
    turn, at = _gone(scene), scene.at
    turn.admitted(0, at_ns=at(10.1))
    turn.computed(0, 48, at_ns=at(11))
    turn.preempted(at_ns=at(12))
    scene.serve("c-1", "c", 96, chain("a", 6), 13.0, publish=chain("a", 6))
    scene.recorder.evicted(chain("a", 6), 16, reason="reset", at_ns=at(16))
    turn.admitted(0, at_ns=at(20))
    _end(scene, turn, 0, 22)
    return scene


def preempted_twice() -> Scene:
    """First for b-2, then for b-3: what the second attempt held is computed again because of b-3."""
    scene = Scene()
    others = [scene.recorder.turn(f"b-{n}", prompt_tokens=16, at_ns=scene.at(0)) for n in (2, 3)]
    turn, at = _gone(scene), scene.at
    for second, other in zip((10.0, 20.0), others, strict=True):
        turn.admitted(0, at_ns=at(second + 0.1))
        turn.computed(0, 48, at_ns=at(second + 1))
        turn.preempted(by=other, at_ns=at(second + 2))
    turn.admitted(0, at_ns=at(30))
    _end(scene, turn, 0, 32)
    return scene


def finds_its_own_after_a_preemption() -> Scene:
    """What a-2 computed again in its first attempt, and published, is there in its second."""
    scene = Scene()
    turn, at = _gone(scene), scene.at
    turn.admitted(0, at_ns=at(10.1))
    turn.computed(0, 96, at_ns=at(11))
    scene.recorder.published(chain("a", 6), 16, turn=turn, at_ns=at(11))
    turn.preempted(at_ns=at(12))
    turn.admitted(96, at_ns=at(20))
    _end(scene, turn, 96, 22)
    return scene


def _serve(scene: Scene, turn: Turn, start: int, end: int, second: float) -> None:
    turn.admitted(start, at_ns=scene.at(second))
    turn.computed(start, end, at_ns=scene.at(second + 1))
    turn.first_token(at_ns=scene.at(second + 1))


_MORE: list[Callable[[], Scene]] = [
    changed_prompts,
    answer_rendered_anew,
    without_conversation_ids,
    what_times_contradict,
    what_usages_contradict,
    corrected_and_unfinished,
    lives_of_a_key,
    evicted_twice,
    broken_twice,
    publish_in_time_for_the_next,
    restored_at_the_second_try,
    not_restored_and_nothing_found,
    gone_again_while_preempted,
    preempted_twice,
    finds_its_own_after_a_preemption,
    two_slots,
]


def of_scenes() -> Spans:
    """One small scene for each cause, and those in which causes overlap."""
    return recorded([*(make for make, _ in SCENES.values()), *_MORE])


# -- engines --------------------------------------------------------------------------------------------------------------

_SLOTS = EngineConfig(
    slots=8, pool_tokens=1_300, max_running=3, chunk_tokens=256, request_chunk_tokens=128, min_span_tokens=24, host_tokens=900
)
_BLOCKS = EngineConfig(
    block_tokens=16,
    pool_tokens=1_280,
    max_running=3,
    chunk_tokens=128,
    request_chunk_tokens=64,
    store=StoreConfig(grid_tokens=64, min_span_tokens=64, drops_hashes=False, restores_whole_spans=False),
)


def _scripts(turns: int) -> list[Script]:
    """Three that talk, one that reads something long; together they want more than there is."""
    system = Message("system", 96)
    scripts: list[Script] = []
    for number in range(4):
        opening = (system, *(Message(f"{number}:file-{part}", 130) for part in range(3 if number == 3 else 1)))
        beats = [Beat(0.4 + number, (40 + 20 * number,), 30 + 10 * number) for _ in range(turns)]
        scripts.append(Script(f"c{number}", f"chat-{number}", opening, tuple(beats), 0.2 * number, tenant=f"t{number % 2}"))
    return scripts


def _with_incidents(scripts: list[Script]) -> list[Script]:
    changes: dict[tuple[int, int], dict[str, Any]] = {
        (0, 2): {"cache_disabled": True},
        (1, 0): {"lease_seconds": 1.0},
        (1, 1): {"restore_fault": "corrupt"},
        (2, 1): {"restore_fault": "timeout"},
        (2, 3): {"abort_after_seconds": 0.1},
    }
    beats = [list(script.beats) for script in scripts]
    for (script, beat), change in changes.items():
        if beat < len(beats[script]):
            beats[script][beat] = replace(beats[script][beat], **change)
    return [replace(script, beats=tuple(own)) for script, own in zip(scripts, beats, strict=True)]


def engine_scene(config: EngineConfig, scripts: list[Script]) -> Scene:
    """An engine serves the scripts."""
    scene = Scene(**config.facts())
    Conversations(config, scripts, scene.recorder, started_ns=memory_store.START_NS, seed=7).run()
    return scene


def of_slots() -> Spans:
    """Snapshots in slots, above a host tier: two runs of the same traffic, one with half as many slots."""
    scripts = _with_incidents(_scripts(4))
    configs = [replace(_SLOTS, slots=slots, run=f"{slots} slots") for slots in (8, 16)]
    return recorded([partial(engine_scene, config, scripts) for config in configs], first=100)


def of_blocks() -> Spans:
    """Blocks, above a page store."""
    return recorded([partial(engine_scene, replace(_BLOCKS, run="blocks"), _with_incidents(_scripts(4)))], first=200)


TRAFFIC: dict[str, Callable[[], Spans]] = {"scenes": of_scenes, "slots": of_slots, "blocks": of_blocks}


@cache
def traffic(name: str) -> Spans:
    """One of these, or ``all``; recorded once."""
    return [span for each in TRAFFIC.values() for span in each()] if name == "all" else TRAFFIC[name]()


KINDS = ("turn", "turn.correction", "scheduler.admit", "prefill", "snapshot.publish", "snapshot.evict", "snapshot.restore")


class Chosen:
    """Spans of a traffic, in batches. Short when it is printed."""

    def __init__(self, how: str, *batches: Spans) -> None:
        self.how = how
        self.batches = batches

    def __repr__(self) -> str:
        few = [
            [f"{span.name} {(span.attributes or {}).get('turnlens.turn_id')}" for span in batch[:5]] for batch in self.batches
        ]
        return f"{self.how}: {[len(batch) for batch in self.batches]} spans, {few}"


def emptied(folder: Path) -> Opened:
    """Opens an empty store, ever again. Making the views takes a second, copying them nothing."""
    template = folder / "template.duckdb"
    MemoryStore(str(template)).close()
    numbers = count()

    @contextmanager
    def opened() -> Generator[MemoryStore]:
        path = Path(shutil.copy(template, folder / f"{next(numbers)}.duckdb"))
        store = MemoryStore(str(path))
        try:
            yield store
        finally:
            store.close()
            for left in folder.glob(f"{path.name}*"):
                left.unlink()

    return opened
