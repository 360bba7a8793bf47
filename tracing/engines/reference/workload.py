"""Growing conversations, and the demo: two dozen of them on 48 slots, chosen so that every kind of turn is seen.

A conversation grows one prompt: each turn adds what the user (or a tool) says and, after it, the engine's answer. The next turn
comes a pause after the last answer, so a slow engine is asked less: a closed loop, as people and agents are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.clock import SECOND, ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.scripts import Script, demo_scripts
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.truth import TurnTruth

# Longer than the demo's virtual time for any seed tried (a test says so): start so long ago, and no span lies in the future.
DEMO_SECONDS = 600.0


@dataclass(slots=True)
class _Conversation:
    """How far a script has come. ``history`` is the prompt so far; an aborted turn leaves nothing in it."""

    script: Script
    history: list[Message]
    turn: int = 0
    asked: Request | None = None
    fault: str | None = None  # of a restore, until there is one

    def next_request(self) -> Request:
        script, beat = self.script, self.script.beats[self.turn]
        self.turn += 1
        self.fault = beat.restore_fault or self.fault
        name = f"{script.conversation_id}:{self.turn}"
        said = [Message(f"{name}.{at}", tokens) for at, tokens in enumerate(beat.messages)]
        self.asked = Request(
            f"{script.short}-t{self.turn:02}",
            (*self.history, *said),
            Message(f"{name}.answer", beat.output_tokens),
            script.conversation_id,
            script.tenant,
            beat.lease_seconds,
            beat.cache_disabled,
            beat.abort_after_seconds,
            self.fault,
        )
        return self.asked

    def ended(self, turn: TurnTruth) -> None:
        """The answer was given: it is part of the conversation."""
        if self.fault in turn.restore_faults:
            self.fault = None
        if turn.status == "stop" and self.asked is not None:
            self.history = [*self.asked.messages, self.asked.output]


class Conversations:
    """Drives an engine with scripts. Each turn is submitted when the one before it has ended."""

    def __init__(
        self,
        config: EngineConfig,
        scripts: Sequence[Script],
        recorder: Recorder | None = None,
        *,
        started_ns: int = 0,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.engine = Engine(config, recorder, started_ns=started_ns, seed=seed, on_finished=self._ended)
        self._progress = progress
        self._total = sum(len(script.beats) for script in scripts)
        self._done = 0
        self._open: dict[str, _Conversation] = {}  # by the request that is being served
        self._starts: dict[str, list[_Conversation]] = {}  # by the request whose end they wait for
        for script in scripts:
            conversation = _Conversation(script, list(script.opening))
            if script.starts_after is None:
                self._ask(conversation, started_ns + ns(script.starts_seconds))
            else:
                self._starts.setdefault(script.starts_after, []).append(conversation)

    def run(self) -> list[TurnTruth]:
        """Serve every turn. A conversation that waits for a turn that never comes is an error."""
        turns = self.engine.run()
        if self._starts:
            raise ValueError(f"no conversation has the turns {sorted(self._starts)}, for which others wait")
        return turns

    def _ask(self, conversation: _Conversation, at_ns: int) -> None:
        request = conversation.next_request()
        self._open[request.request_id] = conversation
        self.engine.submit(request, at_ns)

    def _ended(self, turn: TurnTruth) -> None:
        now_ns = self.engine.now_ns
        conversation = self._open.pop(turn.request_id)
        conversation.ended(turn)
        if conversation.turn < len(conversation.script.beats):
            self._ask(conversation, now_ns + ns(conversation.script.beats[conversation.turn].pause_seconds))
        for other in self._starts.pop(turn.request_id, ()):
            self._ask(other, now_ns + ns(other.script.starts_seconds))
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the engine itself knows of the demo: each turn's truth, in the order in which they ended, and its times [ns]."""

    config: EngineConfig
    turns: tuple[TurnTruth, ...]
    started_ns: int
    ended_ns: int


def demo_config() -> EngineConfig:
    """48 slots and a pool that they leave mostly free; a host tier that holds a part of what they lose."""
    return EngineConfig(
        slots=48, pool_tokens=180_000, max_running=7, request_chunk_tokens=768, min_span_tokens=64, host_tokens=60_000
    )


def run_demo(
    recorder: Recorder | None,
    *,
    seed: int = 7,
    started_ns: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> DemoResult:
    """Serve the demo's conversations. ``started_ns`` is when they began [wall ns]; ``progress`` is called with the turns done
    and the turns in all. The recorder is the caller's: see ``EngineConfig.facts``. It is neither flushed nor closed."""
    config = demo_config()
    driver = Conversations(config, demo_scripts(seed), recorder, started_ns=started_ns, seed=seed, progress=progress)
    turns = driver.run()
    return DemoResult(config, tuple(turns), started_ns, driver.engine.now_ns)


def demo_seconds(seed: int = 7) -> float:
    """How long the demo of this seed takes in virtual time, found by running it once unrecorded (a fraction of a second)."""
    return run_demo(None, seed=seed).ended_ns / SECOND
