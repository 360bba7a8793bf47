"""Drives the reference engine with the traffic of traces: a block cache of a given size, under prompts that real users sent.

Two requests that come together race: what one is still computing the other does not find. Served one at a time, which is the
default, every request finds what all before it left, and an endless cache hits exactly what the trace has in common with
itself. With more at a time the engine works as engines do, open loop: requests come when the trace says, whether it keeps up or
not, and which of them find what depends on its speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.clock import SECOND
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.policy import POLICIES
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig
from turnlens.tracing.engines.reference.traces import MOONCAKE, Trace, TraceError, TraceRequest
from turnlens.tracing.engines.reference.truth import TurnTruth

# A block that was computed is there: it costs nothing to publish or to find, and a prompt's text is not cut into messages.
_COSTS = Costs(frontend_message_seconds=0.0, publish_seconds=0.0, lookup_snapshot_seconds=0.0, capture_seconds=0.0)
_CHUNK_TOKENS = 8_192  # vLLM's default on large devices
_MOST_SECONDS = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of all traces in one order of arrival, each with the namespace of its block ids.

    ``blocks`` is how many blocks the prompts have, ``distinct_blocks`` how many different ones, each taken with all that stand
    before it, and ``reusable_blocks`` how many an endless cache hits when requests are served one at a time. ``speed`` divides
    the times: 2 is twice as fast."""

    traces: tuple[Trace, ...]
    requests: tuple[tuple[TraceRequest, str], ...]
    block_tokens: int
    blocks: int
    distinct_blocks: int
    reusable_blocks: int
    speed: float

    @property
    def partial_ids(self) -> bool:
        """Whether a block that is not full has an id too, and can be found again."""
        return self.traces[0].form == MOONCAKE

    @property
    def span_ns(self) -> int:
        """From the first arrival to the last, on the trace's own clock."""
        return self.requests[-1][0].at_ns - self.requests[0][0].at_ns

    def arrival_ns(self, at: int) -> int:
        """When a request comes, after the first."""
        return round((self.requests[at][0].at_ns - self.requests[0][0].at_ns) / self.speed)


def traffic_of(traces: Sequence[Trace], speed: float = 1.0) -> Traffic:
    """Put traces together. Raises TraceError where they cannot be: blocks of two sizes, or times that are not of one clock."""
    if not (isfinite(speed) and speed > 0):
        raise TraceError(f"{speed:g} is no speed: 1 is the trace's own, 2 twice as fast.")
    first = traces[0]
    for odd in traces:
        if (odd.form, odd.block_tokens) != (first.form, first.block_tokens):
            raise TraceError(
                f"One engine has one size of blocks, and of one kind: {first.path} ({first.form}) has blocks of "
                f"{first.block_tokens} tokens, {odd.path} ({odd.form}) of {odd.block_tokens}. Replay them one after the other."
            )
    requests = [(request, trace.scope) for trace in traces for request in trace.requests]
    requests.sort(key=lambda item: item[0].at_ns)
    (earliest, _), (latest, _) = requests[0], requests[-1]
    if latest.at_ns - earliest.at_ns > _MOST_SECONDS * SECOND * min(1.0, speed):
        raise TraceError(
            f"From {earliest.request_id} to {latest.request_id} it is more than ten years at this speed. "
            "One of the two times is wrong, or they are not in the format's unit (Mooncake: ms, conversations: s)."
        )
    reusable, distinct = _shared(requests)
    return Traffic(
        tuple(traces),
        tuple(requests),
        first.block_tokens,
        sum(len(request.blocks) for request, _ in requests),
        distinct,
        reusable,
        speed,
    )


def _shared(requests: Sequence[tuple[TraceRequest, str]]) -> tuple[int, int]:
    """How many blocks stood in an earlier prompt behind the same blocks, and how many there are. By a tree of ids, without the
    engine and its digests."""
    nodes: dict[tuple[int, str | int], int] = {}
    reusable = 0
    for request, scope in requests:
        at, known = nodes.setdefault((0, scope), len(nodes) + 1), True
        for block in request.blocks:
            new = len(nodes) + 1
            at = nodes.setdefault((at, block), new)
            known = known and at != new
            reusable += known
    return reusable, len(nodes) - len({scope for _, scope in requests})


def config_for(traffic: Traffic, *, blocks: int | None = None, policy: str = "lru_leaf", concurrency: int = 1) -> EngineConfig:
    """The engine that is to serve it: ``blocks`` of capacity, or as many as everything needs. Raises TraceError where an engine
    of this kind cannot be, or cannot serve the largest request."""
    if policy not in POLICIES:
        raise TraceError(f"There is no eviction policy {policy!r}. There are: {', '.join(sorted(POLICIES))}.")
    if concurrency < 1:
        raise TraceError(f"{concurrency} requests at a time serve nobody: at least 1.")
    size = traffic.block_tokens
    needed, largest = max(((_blocks(request, traffic), request) for request, _ in traffic.requests), key=lambda item: item[0])
    if blocks is None:
        # Nothing is ever evicted: what the prompts have in all, and what as many as can run at a time hold beside it.
        blocks = traffic.distinct_blocks + concurrency * (needed + 1)
    elif blocks < 1:
        raise TraceError(f"A cache of {blocks} blocks holds nothing: at least 1.")
    elif blocks < needed:
        raise TraceError(
            f"A cache of {blocks:,} blocks cannot serve {largest.request_id}: its {largest.prompt_tokens:,} prompt tokens and "
            f"{largest.output_tokens:,} of output take {needed:,} blocks of {size}. Give at least {needed:,}, or no limit."
        )
    return EngineConfig(
        pool_tokens=blocks * size,
        block_tokens=size,
        whole_messages=traffic.partial_ids,
        max_running=concurrency,
        chunk_tokens=_CHUNK_TOKENS,
        request_chunk_tokens=_CHUNK_TOKENS,
        decode_burst_tokens=_CHUNK_TOKENS,  # output between two events at once: nobody looks at it
        capture_outputs=False,  # the next prompt brings the answer as blocks with ids of their own
        policy=policy,
        costs=_COSTS,
    )


def seconds_at_most(traffic: Traffic, config: EngineConfig) -> float:
    """Virtual time [s] that a replay does not exceed: the last arrival, and everything computed one after the other; twice,
    where requests may be preempted and computed again. A recorder started so long ago records nothing of the future."""
    costs = config.costs
    token = costs.step_seconds + costs.decode_step_seconds + config.max_running * costs.decode_stream_seconds
    work = sum(
        costs.frontend_seconds
        + request.prompt_tokens / costs.prefill_tokens_per_second
        + (request.prompt_tokens / config.request_chunk_tokens + 2) * costs.step_seconds
        + request.output_tokens * token
        for request, _ in traffic.requests
    )
    return traffic.span_ns / SECOND / traffic.speed + work * (2 if config.max_running > 1 else 1)


def _blocks(request: TraceRequest, traffic: Traffic) -> int:
    """Blocks that one request takes while it runs. Output does not go on in a prompt's last block where that has an id."""
    size, prompt, output = traffic.block_tokens, request.prompt_tokens, request.output_tokens
    return -(-prompt // size) - (-output // size) if traffic.partial_ids else -(-(prompt + output) // size)


@dataclass(slots=True)
class Replayed:
    """What the engine itself counted. ``virtual_ns`` is the time from the first arrival to the last end."""

    requests: int = 0
    blocks: int = 0
    blocks_hit: int = 0
    prompt_tokens: int = 0
    seen_tokens: int = 0
    hit_tokens: int = 0
    recomputed_tokens: int = 0
    new_tokens: int = 0
    restored_tokens: int = 0
    unobserved_tokens: int = 0
    preemptions: int = 0
    virtual_ns: int = 0

    @property
    def blocks_hit_ratio(self) -> float | None:
        """Of the blocks that the prompts have."""
        return self.blocks_hit / self.blocks if self.blocks else None


class Replay:
    """Serves traffic on an engine. ``started_ns`` is when the first request comes [wall ns], ``progress`` is called with the
    requests done and in all. The recorder is the caller's (see ``EngineConfig.facts``), neither flushed nor closed."""

    def __init__(
        self,
        traffic: Traffic,
        config: EngineConfig,
        recorder: Recorder | None = None,
        *,
        started_ns: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._traffic = traffic
        self._started_ns = started_ns
        self._progress = progress
        self._one_at_a_time = config.max_running == 1
        self._next = 0
        self._open: dict[str, TraceRequest] = {}
        self._found = Replayed()
        self.engine = Engine(config, recorder, started_ns=started_ns, on_finished=self._ended)

    def run(self) -> Replayed:
        """Serve everything."""
        self._submit_next()
        self.engine.run()
        self._found.virtual_ns = self.engine.now_ns - self._started_ns
        return self._found

    def _submit_next(self) -> None:
        """One request reaches the engine when its time comes; or, where one is served at a time, when the one before it has
        ended, if that is later. (All of them in advance would be every prompt of the trace in memory.)"""
        if self._next == len(self._traffic.requests):
            return
        asked, scope = self._traffic.requests[self._next]
        arrival = self._started_ns + self._traffic.arrival_ns(self._next)
        self._next += 1
        self._open[asked.request_id] = asked
        request = _request(asked, scope, self._traffic.block_tokens)
        if self._one_at_a_time:
            self.engine.submit(request, arrival)
        else:
            self.engine.events.at(arrival, lambda: self._submit(request))

    def _submit(self, request: Request) -> None:
        self.engine.submit(request)
        self._submit_next()

    def _ended(self, turn: TurnTruth) -> None:
        asked, found, size = self._open.pop(turn.request_id), self._found, self._traffic.block_tokens
        found.requests += 1
        found.blocks += len(asked.blocks)
        # Of a prompt found whole the last token is computed, so the hit alone may miss its last block. After a preemption what
        # is found is also what the request itself had computed.
        reached = turn.found_tokens if turn.attempts == 1 else turn.hit
        found.blocks_hit += min(len(asked.blocks), -(-reached // size))
        found.prompt_tokens += turn.prompt_tokens
        found.seen_tokens += turn.seen or 0
        found.hit_tokens += turn.hit
        found.restored_tokens += turn.restored
        found.recomputed_tokens += turn.recomputed or 0
        found.new_tokens += turn.new or 0
        found.unobserved_tokens += turn.unobserved
        found.preemptions += turn.attempts - 1
        if self._progress is not None:
            self._progress(found.requests, len(self._traffic.requests))
        if self._one_at_a_time:
            self._submit_next()


def _request(asked: TraceRequest, scope: str, size: int) -> Request:
    """The request with its blocks as messages. What is left past them is nobody else's."""
    prompt = asked.prompt_tokens
    blocks = [Message(f"{scope}:{block}", min(size, prompt - at * size)) for at, block in enumerate(asked.blocks)]
    if len(blocks) * size < prompt:
        blocks.append(Message(f"{asked.request_id}.tail", prompt - len(blocks) * size))
    output = Message(f"{asked.request_id}.output", asked.output_tokens)
    return Request(asked.request_id, tuple(blocks), output, asked.conversation_id)
