"""Scenes whose spans land in a store's file: what the dashboard is tested on."""

import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
from memory_store import Scene
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from turnlens.collectors import arriving
from turnlens.collectors.decode import decode_traces
from turnlens.queries import folding, schema
from turnlens.tracing import Turn

UNIT = 16
# What an engine, a client or an attacker may put into an id. None of it may be read as HTML, Markdown, LaTeX or a directive.
HOSTILE = [
    "<b>bold</b>",
    "<img src=x onerror=window.hostile=1>",
    "[link](javascript:window.hostile=1)",
    "$x^2$",
    ":red[x] :smile: :material/home:",
    "**stars** `code` -> -- <br> %{y} {x}",
    "quote\"'&amp;& ?a=b#c/d\\e",
]


def file_store(path: Path, spans: Sequence[ReadableSpan]) -> Path:
    """A store's file with these spans, as a collector leaves it."""
    connection = duckdb.connect(str(path))
    try:
        schema.install(connection)
        if spans:
            batch = decode_traces(encode_spans(spans), time.time_ns())
            arriving.insert_resources(connection, [batch], set())
            arriving.insert_spans(connection, [batch])
            folding.fold_all(connection)
    finally:
        connection.close()
    return path


def finished_spans(scene: Scene) -> Sequence[ReadableSpan]:
    """Everything of a scene. Closes its recorder."""
    spans = scene.spans()
    scene.recorder.close()
    return spans


def keys(of: str, tokens: int) -> list[str]:
    """The keys of a prompt's whole units."""
    return [f"{of}/{number}" for number in range(tokens // UNIT)]


class Story:
    """Conversations on an engine with few slots, told turn by turn, a second each."""

    def __init__(self, engine: str = "test", **facts: object) -> None:
        self.scene = Scene(engine=engine, **({"slots": 4, "pool_tokens": 100_000} | facts))
        self.now = 0.0

    def turn(
        self,
        name: str,
        conversation: str,
        prompt: int,
        hit: int = 0,
        restored: int = 0,
        queue: float = 0.1,
        evicts: tuple[str, int, int] | None = None,
        publishes: bool = True,
        **attributes: str,
    ) -> Turn:
        """One turn. ``evicts``: conversation, first and last unit of what had to go for it."""
        recorder, at = self.scene.recorder, self.scene.at
        self.now += 1.0
        begun = self.now
        turn = recorder.turn(
            name,
            conversation_id=conversation,
            prompt_tokens=prompt,
            prefix=keys(conversation, prompt),
            prefix_at=UNIT,
            at_ns=at(begun),
            **attributes,
        )
        if evicts:
            whose, first, last = evicts
            recorder.sample(free_slots=0, free_tokens=94_000, at_ns=at(begun + queue / 2))
            gone = [f"{whose}/{number}" for number in range(first, last)]
            recorder.evicted(gone, UNIT, reason="slots", for_turn=turn, policy="lru", at_ns=at(begun + queue / 2))
        moment = begun + queue
        turn.admitted(hit_tokens=hit, offered_tokens=restored, tier="host" if restored else None, at_ns=at(moment))
        if restored:
            turn.restore_started(restored, "host", at_ns=at(moment))
            moment += 0.2
            turn.restore_finalized(True, hit + restored, at_ns=at(moment))
        moment += 0.1 + (prompt - hit - restored) / 5_000
        turn.computed(hit + restored, prompt, at_ns=at(moment))
        turn.first_token(at_ns=at(moment))
        moment += 0.3
        if publishes:
            recorder.published(keys(conversation, prompt), UNIT, turn=turn, at_ns=at(moment))
        turn.finished("stop", output_tokens=20, at_ns=at(moment))
        self.now = max(self.now, moment)
        return turn

    def broken(self, name: str, conversation: str | None, prompt: int) -> None:
        """A turn that was aborted before its prompt was seen to the end."""
        recorder, at = self.scene.recorder, self.scene.at
        self.now += 1.0
        turn = recorder.turn(name, conversation_id=conversation, prompt_tokens=prompt, at_ns=at(self.now))
        turn.admitted(at_ns=at(self.now + 0.1))
        turn.computed(0, prompt // 2, at_ns=at(self.now + 0.3))
        turn.finished("abort", at_ns=at(self.now + 0.4))

    def spans(self) -> Sequence[ReadableSpan]:
        return finished_spans(self.scene)


def agents() -> Sequence[ReadableSpan]:
    """Two agents that share four slots: ``b-2`` makes the middle of ``a-1``'s prefix go, so ``a-2`` restores and recomputes.
    ``a-3`` is a clean hit, ``c-1`` is broken."""
    story = Story()
    story.turn("a-1", "agent-a", 4_000)
    story.turn("b-1", "agent-b", 2_000)
    story.turn("b-2", "agent-b", 2_600, hit=1_984, evicts=("agent-a", 100, 250))
    story.turn("a-2", "agent-a", 5_000, hit=1_600, restored=800)
    story.turn("a-3", "agent-a", 5_400, hit=4_992)
    story.turn("b-3", "agent-b", 3_000, hit=2_592, queue=2.0)
    story.broken("c-1", "agent-c", 1_000)
    return story.spans()


def only_broken() -> Sequence[ReadableSpan]:
    """A store in which no turn is complete."""
    story = Story()
    story.broken("c-1", "agent-c", 1_000)
    story.broken("c-2", None, 800)
    return story.spans()


def hostile() -> Sequence[ReadableSpan]:
    """Every text that an engine can give is hostile."""
    story = Story(engine=HOSTILE[0], replica=HOSTILE[3], policy=HOSTILE[4])
    for number, text in enumerate(HOSTILE):
        story.turn(text, text, 1_600, model=text, run=text)
        other = HOSTILE[number - 1]
        story.turn(f"{text} again", text, 2_000, hit=800, model=text, run=text, evicts=(other, 50, 90))
    story.broken(f"{HOSTILE[1]} broken", HOSTILE[1], 500)
    return story.spans()


def many(turns: int) -> Sequence[ReadableSpan]:
    """One conversation a turn, so that lists need pages."""
    story = Story()
    for number in range(turns):
        story.turn(f"t-{number}", f"conversation-{number}", 320)
    return story.spans()
