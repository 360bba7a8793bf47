"""The recorded reference stream of one engine start: what each turn asked its cache for, and when it left what behind.

Everything comes from the store's ``reference_*`` macros. What cannot be replayed is counted by reason, never guessed.
"""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store
from turnlens.queries.whatif import policies
from turnlens.queries.whatif.points import Points

Row = dict[str, Any]
EVER_NS = 9_000_000_000_000_000_000
_PAGE = 250_000


class Kind(IntEnum):
    """What an event of the stream is."""

    LOOKUP = 0  # a turn was admitted
    PUBLISH = 1  # a turn made a point reusable
    LEAVE = 2  # a turn gave up its KV
    LEASE = 3  # a point is kept
    UNLEASE = 4
    EXPIRE = 5  # a lease ends, and what nobody else uses of it goes
    DROP = 6  # a point went on request
    RESET = 7  # everything that is not in use went


class Event(NamedTuple):
    """``turn`` and ``point`` are numbers, -1 where there is none."""

    at_ns: int
    kind: Kind
    turn: int
    point: int


@dataclass(slots=True)
class Reference:
    """One turn. Positions and counts are tokens. ``deepest`` is the last reuse point of its prompt, ``left`` the last one that
    it had made reusable when it ended (-1: none). ``counted``: it is part of the totals."""

    turn_id: str
    trace_id: str
    span_id: str
    conversation_id: str | None
    admitted_ns: int
    first_token_ns: int
    end_ns: int
    prompt_tokens: int
    output_tokens: int
    seen_tokens: int
    found_tokens: int | None
    hit_tokens: int | None
    deepest: int
    left: int
    reads_cache: bool = True
    complete: bool = True
    counted: bool = True
    run: str | None = None


@dataclass(slots=True)
class Stream:
    """``slots``: the engine keeps whole snapshots in slots; None for a cache of blocks. ``unit_tokens`` is a block's length
    there. ``left_out`` counts the turns that are not part of the totals, by reason."""

    engine: str
    slots: int | None
    pool_tokens: int | None
    unit_tokens: int
    policy: str | None
    points: Points
    turns: list[Reference]
    events: list[Event]
    left_out: dict[str, int]
    first_ns: int
    last_ns: int
    prefill_tokens_per_second: float | None = None
    publishes: int = 0
    finds_whole: bool = True

    @property
    def unit(self) -> str:
        """What capacity is counted in."""
        return "blocks" if self.slots is None else "slots"

    @property
    def recorded_capacity(self) -> int | None:
        """What the engine had, in ``unit``."""
        if self.slots is not None:
            return self.slots or None
        return -(-self.pool_tokens // self.unit_tokens) if self.pool_tokens else None

    def held(self, turn: Reference, found: int, at_ns: int) -> int:
        """How much KV a running turn holds at a time, as if it grew evenly from its admission to its first token and from there
        to its end [tokens]. When each step ran is not in the store."""
        if at_ns < turn.first_token_ns:
            share = (at_ns - turn.admitted_ns) / (turn.first_token_ns - turn.admitted_ns)
            return found + round(max(0.0, share) * max(0, turn.prompt_tokens - found))
        if at_ns < turn.end_ns:
            share = (at_ns - turn.first_token_ns) / (turn.end_ns - turn.first_token_ns)
            return turn.prompt_tokens + round(share * turn.output_tokens)
        return turn.prompt_tokens + turn.output_tokens

    def usable(self, turn: Reference, found: int) -> int:
        """Of a prefix that is there, what is a hit [tokens]: of a prompt found whole at least the last token is computed, or
        the last unit where the engine never finds a prompt whole."""
        most = turn.prompt_tokens - 1
        return min(found, most if self.finds_whole else most // self.unit_tokens * self.unit_tokens) if found > most else found


def engines(store: Store, conversation: str | None = None) -> list[Row]:
    """The engine starts of a store, or those that served a conversation, the one with the most turns first: the rows of macro
    ``reference_engines``."""
    return store.query("from reference_engines(?)", [conversation]).to_pylist()


def name_of(engine: Row) -> str:
    """An engine start as a person names it: engine/replica, and its runs."""
    runs = f" run {', '.join(engine['runs'])}" if engine["runs"] else ""
    return f"{engine['engine'] or 'unknown'}/{engine['replica'] or '0'}{runs}"


def load(store: Store, engine: Row, until_ns: int = EVER_NS) -> Stream:
    """The stream of one engine start, up to a time [ns]. Raises QueryError where nothing in it can be replayed."""
    bounds = [engine["resource_id"], until_ns]
    turns = _pages(store, "from reference_turns(?, ?) limit ? offset ?", bounds)
    return build(engine, turns, _pages(store, "from reference_changes(?, ?) limit ? offset ?", bounds))


def _pages(store: Store, sql: str, bounds: list[str | int]) -> list[Row]:
    """All rows, in portions: a single answer has a limit of rows and of time."""
    rows: list[Row] = []
    while True:
        page = store.query(sql, [*bounds, _PAGE, len(rows)]).to_pylist()
        rows += page
        if len(page) < _PAGE:
            return rows


def build(engine: Row, turns: list[Row], changes: list[Row]) -> Stream:
    """The stream from rows of ``reference_engines``, ``reference_turns`` and ``reference_changes``."""
    points = Points()
    _declare(points, turns, changes)
    left_out: Counter[str] = Counter()
    references: list[Reference] = []
    numbers: dict[tuple[str, str], int] = {}  # by trace and turn id: an id may come again after very many others
    timed: list[tuple[int, Event]] = []  # order among equal times, event
    last: list[tuple[int, int]] = []  # when each turn lets go
    for row in turns:
        reason, replayed = _unfit(row, points)
        if reason is not None:
            left_out[reason] += 1
        if not replayed:
            continue
        number = numbers[row["trace_id"], row["turn_id"]] = len(references)
        references.append(_reference(row, points, counted=reason is None))
        points.publish(_held(references[-1], points))
        order = row["sequence"] or 0
        timed.append((order, Event(row["admitted_ns"], Kind.LOOKUP, number, -1)))
        last.append(max((row["end_ns"], -1), (row["admitted_ns"], order)))
    publishes = _add_changes(changes, points, references, numbers, timed, last)
    # A turn lets go at its end, or with the last thing that it publishes: among equal times before the next one's admission.
    timed += [(order, Event(when, Kind.LEAVE, number, -1)) for number, (when, order) in enumerate(last)]
    timed.sort(key=lambda item: (item[1].at_ns, item[0]))
    _count_seen(points, references, [event for _, event in timed])
    if not references:
        why = "; ".join(f"{count:,} {reason}" for reason, count in left_out.most_common()) or "there are no turns"
        raise QueryError(
            f"Nothing of engine {name_of(engine)} can be replayed: {why}. Prefix keys are needed (docs/recording.md)."
        )
    whole = engine["slots"] is not None
    policy = policies.recorded(engine["policy"])
    return Stream(
        engine=name_of(engine),
        slots=engine["slots"],
        pool_tokens=engine["pool_tokens"],
        unit_tokens=max(1, engine["unit_tokens"] or 1) if whole else _block_tokens(engine, turns, changes),
        policy=policy.name if policy is not None else engine["policy"],
        points=points,
        turns=references,
        events=[event for _, event in timed],
        left_out=dict(left_out),
        first_ns=min(turn.admitted_ns for turn in references),
        last_ns=max(turn.admitted_ns for turn in references),
        prefill_tokens_per_second=_prefill_rate(turns),
        publishes=publishes,
        finds_whole=whole or any((turn.found_tokens or 0) >= turn.prompt_tokens for turn in references),
    )


def _declare(points: Points, turns: list[Row], changes: list[Row]) -> None:
    """Which key stands below which. Turns say it best: a publish's parent is only the nearest snapshot that was there."""
    prompts: dict[tuple[str, str], tuple[str, int]] = {}
    for row in turns:
        keys: list[str] = row["keys"] or []
        each: int | None = row["tokens_each"]
        if row["key"] is not None:
            prompts[row["trace_id"], row["turn_id"]] = (row["key"], row["key_tokens"])
        if each:
            last = row["key_tokens"] - (row["keys_omitted"] or 0) * each
            points.declare(keys, row["parent_key"], [last - (len(keys) - 1 - at) * each for at in range(len(keys))])
        elif row["keys_end_tokens"] is not None:
            points.declare(keys, row["parent_key"], row["keys_end_tokens"])
    for row in changes:
        if row["kind"] not in ("publish", "not_published"):
            continue
        if row["tokens_each"]:
            points.declare(row["keys"], row["parent_key"], None, row["tokens_each"])
        elif row["key_tokens"] is not None:
            key, tokens = prompts.get((row["trace_id"], row["turn_id"]), (None, 0))
            parent = key if key is not None and tokens < row["key_tokens"] else row["parent_key"]
            points.declare(row["keys"][-1:], parent, [row["key_tokens"]])
    for row in turns:  # what lies above a prefix that is older than these rows is not known: it begins there
        if row["parent_key"] is not None and points.number(row["parent_key"]) is None:
            points.declare([row["parent_key"]], None, [row["seen_tokens"] or 0])
            points.older.add(row["parent_key"])


def _unfit(row: Row, points: Points) -> tuple[str | None, bool]:
    """Why a turn is not part of the totals, or None; and whether it is replayed all the same, for what it does to others."""
    if row["key"] is None:
        return ("without prefix keys" if row["seen_basis"] != "keys" else "shorter than the reuse unit"), False
    if row["admitted_ns"] is None:
        return ("whose admission was not recorded" if row["attempts"] else "never admitted"), False
    deepest = points.number(row["key"])
    if row["prompt_tokens"] is None or deepest is None:
        return ("with more keys than a span holds" if row["keys_omitted"] else "with keys that do not fit together"), False
    if points.key[points.root(deepest)] in points.older:
        return "whose prefix is older than what was replayed", True
    if not row["complete"]:
        return "incomplete", True
    if not row["reads_cache"]:
        return "with the cache disabled", True
    return None, True


def _held(turn: Reference, points: Points) -> list[int]:
    """What a turn found had been published, also where that was before the first of these rows."""
    return [point for point in points.chain(turn.deepest) if points.end[point] == turn.found_tokens]


def _reference(row: Row, points: Points, *, counted: bool) -> Reference:
    return Reference(
        turn_id=row["turn_id"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        conversation_id=row["conversation_id"],
        admitted_ns=row["admitted_ns"],
        first_token_ns=row["first_token_ns"] or row["end_ns"],
        end_ns=row["end_ns"],
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["output_tokens"] or 0,
        seen_tokens=row["seen_tokens"] or 0,
        found_tokens=max(row["found_tokens"] or 0, row["local_tokens"] or 0) if row["found_tokens"] is not None else None,
        hit_tokens=row["hit_tokens"],
        deepest=points.number(row["key"]) or 0,
        left=-1,
        reads_cache=row["reads_cache"],
        complete=row["complete"],
        counted=counted,
        run=row["run"],
    )


def _add_changes(
    changes: list[Row],
    points: Points,
    references: list[Reference],
    turns: dict[tuple[str, str], int],
    timed: list[tuple[int, Event]],
    last: list[tuple[int, int]],
) -> int:
    """Put publishes, leases and drops among the events. Returns how many publishes there are."""
    publishes = 0
    for row in changes:
        kind, at, order = row["kind"], row["at_ns"], row["sequence"] or 0
        if kind == "reset":
            if not timed or timed[-1][1][:2] != (at, Kind.RESET):  # a long list of keys is several spans
                timed.append((order, Event(at, Kind.RESET, -1, -1)))
            continue
        numbers = [number for number in map(points.number, row["keys"]) if number is not None]
        if not numbers:
            continue
        turn = turns.get((row["trace_id"], row["turn_id"]), -1)
        if turn >= 0 and kind in ("publish", "not_published"):  # its KV is held until then, also where nothing came of it
            last[turn] = max(last[turn], (at, order))
        if kind == "publish":
            points.publish(numbers)
            publishes += len(numbers)
            if turn >= 0:
                references[turn].left = max(references[turn].left, *numbers, key=lambda at: points.end[at] if at >= 0 else -1)
            timed += [(order, Event(at, Kind.PUBLISH, turn, number)) for number in numbers]
        elif kind == "lease":
            ended = Kind.EXPIRE if row["reason"] == "expired" else Kind.UNLEASE
            timed.append((order, Event(row["began_ns"], Kind.LEASE, -1, numbers[-1])))
            timed.append((order, Event(at, ended, -1, numbers[-1])))
        elif kind == "evict" and row["reason"] != "lease_expired":  # that follows from the lease
            timed += [(order, Event(at, Kind.DROP, -1, number)) for number in reversed(numbers)]
    return publishes


def _count_seen(points: Points, turns: list[Reference], events: list[Event]) -> None:
    """What had been seen before, of each turn's prompt: as the recorder says, or more where its memory had an end."""
    owner = [-1] * len(points)  # the first turn that had it, plus 1; 0: nobody knows which; -1: none yet
    for _, kind, turn, point in events:
        if kind == Kind.LOOKUP:
            at = turns[turn].deepest
            while at >= 0 and owner[at] in (-1, turn + 1):  # what it had itself, in an earlier attempt, proves nothing
                at = points.parent[at]
            if at >= 0:
                turns[turn].seen_tokens = max(turns[turn].seen_tokens, points.end[at])
        at = point if kind == Kind.PUBLISH else turns[turn].deepest if kind == Kind.LEAVE and turns[turn].complete else -1
        while at >= 0 and owner[at] == -1:
            owner[at] = turn + 1
            at = points.parent[at]


def _block_tokens(engine: Row, turns: list[Row], changes: list[Row]) -> int:
    """The length of a block [tokens]: the longest that was said (the last one of a prompt may be shorter), else the reuse
    unit."""
    said = max((row["tokens_each"] or 0 for row in (*changes, *turns)), default=0)
    return int(said or engine["unit_tokens"] or 1)


def _prefill_rate(turns: list[Row]) -> float | None:
    """Tokens a second at which the quickest tenth of the tokens was computed: what recomputing costs the engine, without what
    turns wait for each other. Publishes and the like are in it."""
    rates = sorted(
        (row["computed_tokens"] / (row["compute_ns"] / 1e9), row["computed_tokens"])
        for row in turns
        if row["complete"] and row["computed_tokens"] and row["compute_ns"]
    )
    above = 0.1 * sum(tokens for _, tokens in rates)
    for rate, tokens in reversed(rates):
        above -= tokens
        if above <= 0:
            return float(rate)
    return None
