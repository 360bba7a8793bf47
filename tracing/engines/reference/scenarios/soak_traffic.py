"""The traffic of the paired soak: agents whose conversations grow, task after task, and the sub-agents that they wait for.

Every agent draws from a stream of its own, so that every arm is asked the same. When it is asked is not the same: an agent goes
on when it has its answer (a closed loop), so a faster arm is asked more within the hour.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import NamedTuple

from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.pages import PagedCache
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.scenarios.base import Parameter
from turnlens.tracing.engines.reference.truth import TurnTruth

Range = tuple[int, int]


def _why(unit: str, reason: str) -> dict[str, str]:
    return {"unit": unit, "reason": reason}


@dataclass(frozen=True, slots=True)
class Soak:
    """Whatever the report does not say, once for every arm. Ranges are drawn from evenly."""

    pool_tokens: int = field(
        default=1_081_922, metadata=_why("tokens", "not reported; the pool of two machines (TP2) in SparkCache's notes")
    )
    block_tokens: int = field(
        default=4_096,
        metadata=_why("tokens", "not reported; coarser than the store's grid of 2,048, which is then often ahead"),
    )
    agents: int = field(
        default=8, metadata=_why("agents", "not reported; 263 turns are 33 for each, and the one agent's trace has 30")
    )
    opening_tokens: Range = field(
        default=(108_000, 135_000), metadata=_why("tokens", "a task's first prompt; the agent's trace begins with 105,000")
    )
    said_tokens: Range = field(
        default=(1_000, 2_400), metadata=_why("tokens", "between two answers; the agent's prompts grow by 2,000 a turn")
    )
    answer_tokens: Range = field(default=(150, 450), metadata=_why("tokens", "not reported"))
    tool_seconds: Range = field(
        default=(50, 140), metadata=_why("s", "not reported; from an answer to the next turn, for 33 turns in an hour")
    )
    task_turns: Range = field(
        default=(10, 20), metadata=_why("turns", "not reported; 16 of 263 turns continue nothing, so tasks come to an end")
    )
    sub_agent_every: int = field(
        default=20, metadata=_why("turns", "not reported; the agent waits for it, and its own KV is kept under a lease")
    )
    sub_agent_tokens: Range = field(default=(9_000, 35_000), metadata=_why("tokens", "as in the other report"))
    sub_agent_turns: int = field(default=3, metadata=_why("turns", "not reported"))
    lease_seconds: float = field(default=600.0, metadata=_why("s", "not reported; longer than a sub-agent takes"))
    stored_share: float = field(
        default=0.5, metadata=_why("of first prompts", "not reported; what an earlier hour has left in the store, in both arms")
    )
    min_span_tokens: int = field(
        default=4_096,
        metadata=_why("tokens", "not reported; a turn is captured when it adds so much, which is every other turn"),
    )
    max_captures: int = field(
        default=8, metadata=_why("captures", "not reported; one is being written, the others wait for it")
    )
    capture_tokens_per_second: float = field(
        default=4_500.0, metadata=_why("tokens/s", "not reported; an idle ring commits 4,096 in 0.175 s, five times as fast")
    )

    def parameters(self) -> list[Parameter]:
        """For the scenario's table."""
        found: list[Parameter] = []
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, tuple):
                value = "-".join(f"{end:,}" for end in value)  # pyright: ignore[reportUnknownVariableType]
            found.append(Parameter(item.name, value, item.metadata["unit"], item.metadata["reason"]))
        return found


class Beat(NamedTuple):
    """One turn: what is said, what is answered, and how long the agent's tools take then. ``opening``: it begins a new task;
    ``helper`` are the turns of a sub-agent that takes the place of tools."""

    said: int
    answer: int
    pause: float
    opening: bool = False
    helper: tuple["Beat", ...] = ()


def beats(soak: Soak, draw: random.Random) -> Iterator[Beat]:
    """An agent's turns, without end. When the hour begins it is somewhere in its first task."""
    left = draw.randint(*soak.task_turns) - draw.randrange(soak.task_turns[0] - 1)
    number = 0
    while True:
        number += 1
        opening = number == 1 or left == 0
        left = draw.randint(*soak.task_turns) if left == 0 else left
        left -= 1
        helper = tuple(_sub_agent(soak, draw)) if number % soak.sub_agent_every == soak.sub_agent_every // 2 else ()
        said = draw.randint(*(soak.opening_tokens if opening else soak.said_tokens))
        yield Beat(said, draw.randint(*soak.answer_tokens), draw.uniform(*soak.tool_seconds), opening, helper)


def _sub_agent(soak: Soak, draw: random.Random) -> Iterator[Beat]:
    for at in range(soak.sub_agent_turns):
        said = draw.randint(*(soak.said_tokens if at else soak.sub_agent_tokens))
        yield Beat(said, draw.randint(*soak.answer_tokens), draw.uniform(2.0, 10.0), not at)


class Hour:
    """Drives one arm's engine for an hour: turns that begin within it are served to their end. Names begin with ``arm``."""

    def __init__(self, soak: Soak, engine: Engine, arm: str, seed: int) -> None:
        self._soak = soak
        self._engine = engine
        self._ends_ns = engine.now_ns + ns(3_600.0)
        self._then: dict[str, Callable[[], None]] = {}
        for number in range(1, soak.agents + 1):
            draw = random.Random(f"{seed}:{number}")  # the names of messages have no arm: every arm is asked the same
            begins = engine.now_ns + ns(draw.uniform(0.0, soak.tool_seconds[1]))
            _Agent(self, f"{arm}-agent-{number}", f"agent-{number}", beats(soak, draw)).go_on(begins)

    def ask(self, request: Request, at_ns: int, then: Callable[[], None]) -> None:
        """Submit a turn, unless the hour is over then."""
        if at_ns < self._ends_ns:
            self._then[request.request_id] = then
            self._engine.submit(request, at_ns)

    def ended(self, turn: TurnTruth) -> None:
        """What the engine calls at a turn's end."""
        self._then.pop(turn.request_id)()

    def after(self, seconds: float) -> int:
        """So long from now [wall ns]."""
        return self._engine.now_ns + ns(seconds)

    def opening(self, name: str, tokens: int, earlier: bool) -> list[Message]:
        """A task's first prompt. Of one that is ``earlier`` than the hour, the store has a part."""
        stored = round(tokens * self._soak.stored_share)
        parts = [Message(f"{name}.begin", stored), Message(f"{name}.rest", tokens - stored)]
        if earlier and isinstance(self._engine.cache, PagedCache):
            self._engine.cache.fill(parts[:1])
        return parts

    def lease_seconds(self, beat: Beat) -> float:
        """A turn that a sub-agent follows leaves its KV under a lease."""
        return self._soak.lease_seconds if beat.helper else 0.0


class _Agent:
    """One agent or sub-agent: a conversation at a time. ``done`` is called after the last of its turns."""

    def __init__(self, hour: Hour, name: str, text: str, turns: Iterator[Beat], done: Callable[[], None] | None = None) -> None:
        self._hour = hour
        self._name = name
        self._text = text
        self._turns = turns
        self._done = done
        self._number = 0
        self._task = 0
        self._history: list[Message] = []

    def go_on(self, at_ns: int) -> None:
        """Ask the next turn."""
        beat = next(self._turns, None)
        if beat is None:
            if self._done is not None:
                self._done()
            return
        self._number += 1
        text = f"{self._text}.{self._number}"
        if beat.opening:
            self._task += 1
            self._history = self._hour.opening(text, beat.said, earlier=self._number == 1 and self._done is None)
        else:
            self._history.append(Message(f"{text}.said", beat.said))
        answer = Message(f"{text}.answer", beat.answer)
        request = Request(
            f"{self._name}-t{self._number:02}",
            tuple(self._history),
            answer,
            f"{self._name}-task-{self._task}",
            lease_seconds=self._hour.lease_seconds(beat),
        )
        self._hour.ask(request, at_ns, partial(self._answered, beat, answer))

    def _answered(self, beat: Beat, answer: Message) -> None:
        self._history.append(answer)
        if not beat.helper:
            self.go_on(self._hour.after(beat.pause))
            return
        name = f"-sub-{self._number}"
        helper = _Agent(self._hour, self._name + name, self._text + name, iter(beat.helper), self._back)
        helper.go_on(self._hour.after(1.0))

    def _back(self) -> None:
        """The sub-agent has reported."""
        self.go_on(self._hour.after(1.0))
