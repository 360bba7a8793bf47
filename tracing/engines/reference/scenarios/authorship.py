"""The authors' traffic: each writes one book after another, asking as soon as the last answer was read, for an hour."""

import random
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, replace
from statistics import median
from typing import Any, NamedTuple

from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.scenarios.base import Arm, Parameter
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.truth import TurnTruth

MINUTES = 60.0


def _free(value: float, unit: str, reason: str) -> Any:
    return field(default=value, metadata={"unit": unit, "reason": reason})


@dataclass(frozen=True, slots=True)
class Free:
    """What the report does not say: one set of values for every row, found once by hand. All are means of what is drawn, but
    for the last three."""

    system_tokens: float = _free(1_500, "tokens", "a system prompt that all authors share; one slot")
    opening_messages: float = _free(
        7.5,
        "messages",
        "a book begins with its plan and what exists of it: it takes about 9 slots at first, 16 in the end",
    )
    opening_tokens: float = _free(
        60_000, "tokens", "in these. Sets what a lost prefix costs (23 s), and so the reply start with 16 authors"
    )
    turns: float = _free(4.5, "turns a book", "the first turn of a book is cold: sets the reuse where nothing is lost")
    user_tokens: float = _free(300, "tokens a turn", "an instruction")
    output_tokens: float = _free(600, "tokens a turn", "a passage; at 6 tokens/s it takes 100 s")
    think_seconds: float = _free(150, "s", "from an answer's end to the next turn: somebody reads")
    spread: float = _free(0.4, "of the mean", "draws are uniform between mean x (1 - spread) and mean x (1 + spread)")
    chunk_tokens: float = _free(
        384, "tokens a step", "prompt tokens in one step: the fewer, the more decoding goes on beside prompts"
    )
    request_chunk_tokens: float = _free(
        256, "tokens a step", "of these, of one request: the rest lets short prompts pass by long ones"
    )


def declared() -> tuple[Field[Any], ...]:
    """The fields of :class:`Free`, each with its unit and reason as metadata."""
    return fields(Free)


def parameters(free: Free) -> list[Parameter]:
    """The free parameters as a table."""
    return [
        Parameter(item.name, getattr(free, item.name), item.metadata["unit"], item.metadata["reason"]) for item in declared()
    ]


class _Author:
    """One author. All is drawn from the author's own dice, in the order of the author's turns: other authors and the engine's
    pace change nothing of what is asked."""

    def __init__(self, label: str, number: int, seed: int, free: Free) -> None:
        self._name = f"{label}-author-{number:02}"
        self._free = free
        self._draw = random.Random(f"{seed} author {number}")
        self._book = self._turn = self._turns = 0
        self._history: list[Message] = []

    def pause_seconds(self) -> float:
        return self._around(self._free.think_seconds)

    def begins_seconds(self) -> float:
        """Nobody asks at the same moment: within one think time all have begun."""
        return self._draw.uniform(0.0, self._free.think_seconds)

    def ask(self) -> Request:
        """The next turn; where a book is finished, the first of another."""
        if self._turn == self._turns:
            self._begin_book()
        self._turn += 1
        book = f"{self._name}-b{self._book}"
        name = f"{book}-t{self._turn}"
        self._history.append(Message(f"{name}.instruction", self._whole(self._free.user_tokens)))
        answer = Message(f"{name}.passage", self._whole(self._free.output_tokens))
        request = Request(name, tuple(self._history), answer, book, "authors")
        self._history.append(answer)
        return request

    def _begin_book(self) -> None:
        self._book += 1
        self._turn, self._turns = 0, self._whole(self._free.turns)
        messages = self._whole(self._free.opening_messages)
        tokens = max(1, round(self._around(self._free.opening_tokens) / messages))
        self._history = [Message("system:authors", round(self._free.system_tokens))]
        self._history += [Message(f"{self._name}-b{self._book}.part-{part}", tokens) for part in range(messages)]

    def _around(self, mean: float) -> float:
        return mean * self._draw.uniform(1 - self._free.spread, 1 + self._free.spread)

    def _whole(self, mean: float) -> int:
        return max(1, round(self._around(mean)))


def serve_authors(config: EngineConfig, arm: Arm, label: str, authors: int, seed: int, free: Free) -> list[TurnTruth]:
    """Serve so many authors for an hour of virtual time; what was asked by then is served to its end. ``label`` begins the
    names of the turns."""
    chunk = min(round(free.chunk_tokens), round(free.request_chunk_tokens))
    config = replace(config, chunk_tokens=round(free.chunk_tokens), request_chunk_tokens=chunk)
    until_ns = arm.started_ns + ns(60 * MINUTES)
    asked: dict[str, _Author] = {}

    def ask(author: _Author, at_ns: int) -> None:
        if at_ns < until_ns:
            request = author.ask()
            asked[request.request_id] = author
            engine.submit(request, at_ns)

    def ended(turn: TurnTruth) -> None:
        author = asked.pop(turn.request_id)
        ask(author, engine.now_ns + ns(author.pause_seconds()))

    engine = Engine(config, arm.recorder, started_ns=arm.started_ns, seed=seed, on_finished=ended)
    for number in range(1, authors + 1):
        author = _Author(label, number, seed, free)
        ask(author, arm.started_ns + ns(author.begins_seconds()))
    return engine.run()


class Figures(NamedTuple):
    """What the report has of a run: the median time to the first token [s], the share of prompt tokens that were hits, and
    tokens a second after the first (over all turns: tokens by time)."""

    reply_start_s: float
    prefix_reused_ratio: float
    decode_tokens_per_s: float


def figures(turns: Sequence[TurnTruth]) -> Figures:
    """The figures of some turns, all of which were served to their end."""
    first = [turn.ttft_ns for turn in turns if turn.ttft_ns is not None]
    decoding_ns = sum(turn.total_ns for turn in turns) - sum(first)
    return Figures(
        median(first) / 1e9,
        sum(turn.hit for turn in turns) / sum(turn.prompt_tokens for turn in turns),
        sum(turn.output_tokens - 1 for turn in turns) / (decoding_ns / 1e9),
    )
