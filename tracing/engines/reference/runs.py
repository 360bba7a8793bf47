"""A request while it is being served."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import Enum

from turnlens.tracing import Turn
from turnlens.tracing.engines.reference.prompts import Point, Request, block_points_of, points_of
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tree import Node
from turnlens.tracing.engines.reference.truth import COMPUTED, HIT, RESTORED, SOURCES, TurnBook, TurnTruth, verdict


class Phase(Enum):
    """Where a request is. A request that captures is finished for its user; its KV is still held."""

    FRONTEND = "frontend"
    WAITING = "waiting"
    RESTORING = "restoring"
    RUNNING = "running"
    CAPTURING = "capturing"
    DONE = "done"


@dataclass(slots=True, eq=False)
class Run:
    """One request's state. Positions and counts are tokens."""

    request: Request
    arrived_ns: int
    config: EngineConfig
    node: Node  # the deepest snapshot that it stands on, pinned
    prompt: int
    points: tuple[Point, ...]  # of the prompt, and of the output that the engine caches
    prompt_points: tuple[Point, ...]
    ends: tuple[int, ...]  # of points
    book: TurnBook
    turn: Turn | None = None
    phase: Phase = Phase.FRONTEND
    held: int = 0  # KV is allocated up to this position
    done: int = 0  # computed, or found, up to this position
    generated: int = 0
    hit: int = 0  # of the running attempt: found on the device, leases not included
    lease: int = 0
    restored_end: int = 0
    consumed: bool = False  # the attempt has taken its first step
    readmit: bool = False  # the next admission belongs to the same attempt: its restore failed
    preempted: bool = False
    fault: str | None = None  # what is to go wrong with the next restore
    faults: list[str] = field(default_factory=list[str])  # what did go wrong
    lookup_seconds: float = 0.0  # to be spent in its next step
    scheduler_ns: int = 0
    admitted_ns: int | None = None
    first_token_ns: int | None = None

    @classmethod
    def of(cls, request: Request, arrived_ns: int, root: Node, config: EngineConfig) -> "Run":
        prompt = request.prompt_tokens
        if not config.block_tokens:
            points = points_of((*request.messages, request.output))
        elif config.whole_messages:
            points = points_of(request.messages)
        else:
            answer = (request.output,) if config.capture_outputs else ()
            points = block_points_of((*request.messages, *answer), config.block_tokens)
        ends = tuple(point.end for point in points)
        asked = points[: bisect_right(ends, prompt)]
        book = TurnBook.of(prompt)
        root.pins += 1
        return cls(request, arrived_ns, config, root, prompt, points, asked, ends, book, fault=request.restore_fault)

    @property
    def id(self) -> str:
        return self.request.request_id

    @property
    def device_end(self) -> int:
        """Prefix that the running attempt found on the device."""
        return self.hit + self.lease

    @property
    def goal(self) -> int:
        """Up to where the model must have run for the next token: the prompt, and the output so far."""
        return self.prompt + self.generated

    @property
    def decoding(self) -> bool:
        """Only the last token is to be run. (After a preemption in mid-output there is more.)"""
        return self.generated > 0 and self.goal - self.done == 1

    def units(self, end: int) -> int:
        """What KV up to a position takes: tokens, or whole blocks."""
        size = self.config.grain_tokens
        if not self.config.whole_messages:
            return -(-end // size)
        if end <= self.prompt:
            return bisect_left(self.ends, end) + 1 if end else 0
        return len(self.ends) + -(-(end - self.prompt) // size)

    @property
    def room_end(self) -> int:
        """Up to where the request can hold KV in what it has now; it holds its whole prompt."""
        return self.held + (self.prompt - self.held if self.config.whole_messages else -self.held) % self.config.grain_tokens

    @property
    def private(self) -> int:
        """KV that no snapshot holds yet [units]."""
        return max(0, self.units(self.held) - self.units(self.node.end))

    def truth(self, status: str, now_ns: int) -> TurnTruth:
        """What happened, at the turn's end."""
        book = self.book
        segments = book.segments()
        sums: dict[str, int] = dict.fromkeys(SOURCES, 0)
        for start, end, source in segments:
            sums[source] += end - start
        first = self.first_token_ns
        admitted = self.admitted_ns is not None
        return TurnTruth(
            request_id=self.id,
            conversation_id=self.request.conversation_id,
            prompt_tokens=self.prompt,
            output_tokens=self.generated,
            segments=segments,
            hit=sums["hit"],
            restored=sums["restored"],
            computed=sums["recomputed"] + sums["new"],
            recomputed=sums["recomputed"] if admitted else None,
            new=sums["new"] if admitted else None,
            unobserved=sums["unobserved"],
            seen=book.seen_tokens if admitted else None,
            work_hit=book.work[HIT],
            work_restored=book.work[RESTORED],
            work_computed=book.work[COMPUTED],
            self_recovered=book.self_recovered,
            found_tokens=book.found_tokens,
            local_tokens=book.local_tokens,
            attempts=book.attempts,
            retries=book.retries,
            status=status,
            complete=not sums["unobserved"],
            verdict=verdict(sums, book.seen_tokens, self.config.unit_tokens),
            missing=book.missing,
            restore_faults=tuple(self.faults),
            arrived_ns=self.arrived_ns,
            frontend_ns=self.scheduler_ns - self.arrived_ns,
            queue_ns=None if self.admitted_ns is None else self.admitted_ns - self.scheduler_ns,
            ttft_ns=None if first is None else first - self.arrived_ns,
            total_ns=now_ns - self.arrived_ns,
        )

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.phase.value} {self.done}/{self.goal}>"
