"""A stream without a store: requests of a trace, each served before the next comes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnlens.queries.whatif.points import Points
from turnlens.queries.whatif.stream import Event, Kind, Reference, Stream


class Asked(NamedTuple):
    """One request: ``keys`` of its prompt's blocks in order of depth, each standing for the whole prefix, of which all but the
    last are ``block_tokens`` long."""

    name: str
    prompt_tokens: int
    keys: Sequence[str]


def stream_of(requests: Iterable[Asked], block_tokens: int) -> Stream:
    """The stream of these requests to a cache of blocks, in the order in which they are given. Times are their numbers. Raises
    ValueError for a request without blocks."""
    points = Points()
    turns: list[Reference] = []
    events: list[Event] = []
    for at, (name, prompt, keys) in enumerate(requests):
        if not keys:
            raise ValueError(f"request {name} has no blocks: nothing of it can be reused")
        parent, seen = -1, 0
        for number, key in enumerate(keys, 1):
            end = min(number * block_tokens, prompt)
            known = points.number(key)
            if known is None:
                known = points.add(key, parent, end)
            else:
                seen = points.end[known]
            parent = known
        turns.append(
            Reference(
                turn_id=name,
                trace_id="",
                span_id="",
                conversation_id=None,
                admitted_ns=at,
                first_token_ns=at,
                end_ns=at,
                prompt_tokens=prompt,
                output_tokens=0,
                seen_tokens=seen,
                found_tokens=None,
                hit_tokens=None,
                deepest=parent,
                left=parent,
            )
        )
        events += [Event(at, Kind.LOOKUP, at, -1), Event(at, Kind.PUBLISH, at, parent)]
    points.publish(range(len(points)))
    return Stream(
        engine="a trace",
        slots=None,
        pool_tokens=None,
        unit_tokens=block_tokens,
        policy=None,
        points=points,
        turns=turns,
        events=events,
        left_out={},
        first_ns=0,
        last_ns=max(0, len(turns) - 1),
        publishes=len(points),
    )
