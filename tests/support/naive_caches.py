"""Prefix caches written down from their definitions, one scan after the other: what the replays are compared with.

They also write the rows that a store would have of their traffic. Nothing here is shared with ``turnlens.queries.whatif`` or with the
reference engine.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

Row = dict[str, Any]


class Ask(NamedTuple):
    """One turn: the reuse points of its prompt as (key, end [tokens]), the last one the whole prompt."""

    chain: tuple[tuple[str, int], ...]


class NaiveSlots:
    """Whole snapshots in slots. A snapshot is its chain of keys; everything else is looked up each time it is needed."""

    def __init__(self, slots: int, greedy: bool) -> None:
        self.slots = slots
        self.greedy = greedy
        self.chains: dict[str, tuple[tuple[str, int], ...]] = {}
        self.used: dict[str, int] = {}
        self.credit: dict[str, float] = {}
        self.inflation = 0.0
        self.clock = 0

    def parent(self, key: str) -> str | None:
        above = [name for name, _ in self.chains[key][:-1] if name in self.chains]
        return above[-1] if above else None

    def children(self, key: str) -> list[str]:
        return [name for name in self.chains if self.parent(name) == key]

    def lost(self, key: str) -> int:
        """Tokens that go with it."""
        if self.children(key):
            return 0
        above = self.parent(key)
        return self.chains[key][-1][1] - (self.chains[above][-1][1] if above else 0)

    def touch(self, key: str) -> None:
        self.clock += 1
        for name, _ in self.chains[key]:
            if name in self.chains:
                self.used[name], self.credit[name] = self.clock, self.inflation

    def victim(self, spare: str) -> str:
        others = [name for name in self.chains if name != spare]

        def order(name: str) -> tuple[float, int, int]:
            weight = self.credit[name] + self.lost(name) if self.greedy else 0.0
            return weight, self.used[name], self.chains[name][-1][1]

        leaves = [name for name in others if not self.children(name)]
        single = [name for name in others if len(self.children(name)) == 1]
        candidates = leaves + single if self.greedy else leaves or single
        chosen = min(candidates, key=order)
        self.inflation = max(self.inflation, order(chosen)[0])
        return chosen

    def serve(self, ask: Ask) -> tuple[int, list[str]]:
        """Returns the prefix found [tokens] and the keys that were published."""
        found = [(key, end) for key, end in ask.chain if key in self.chains]
        if found:
            self.touch(found[-1][0])
        start = found[-1][1] if found else 0
        published: list[str] = []
        for at, (key, end) in enumerate(ask.chain):
            if end <= start:
                continue
            self.chains[key] = ask.chain[: at + 1]
            self.touch(key)
            published.append(key)
            while len(self.chains) > self.slots:
                del self.chains[self.victim(key)]
        return start, published


class NaiveBlocks:
    """Blocks, least recently used first or by GreedyDual-Size; the beginning of a prompt is always used after its end."""

    def __init__(self, capacity: int, greedy: bool) -> None:
        self.capacity = capacity
        self.greedy = greedy
        self.blocks: OrderedDict[str, tuple[float, int, str | None]] = OrderedDict()  # credit, tokens, block above
        self.inflation = 0.0
        self.born: set[str] = set()

    def serve(self, ask: Ask) -> tuple[int, list[str]]:
        """A turn uses what is known of its prefix when it is admitted, and all of it when it publishes and when it leaves."""
        start = 0
        for key, end in ask.chain:
            if key not in self.blocks:
                break
            start = end
        known = tuple(point for point in ask.chain if point[0] in self.born)
        self.born.update(key for key, _ in ask.chain)
        for chain in (known, ask.chain, ask.chain):
            self._use(chain)
        return start, [key for key, end in ask.chain if end > start]

    def _use(self, chain: tuple[tuple[str, int], ...]) -> None:
        begin = 0
        spans: list[tuple[str, int, str | None]] = []
        for at, (key, end) in enumerate(chain):
            spans.append((key, end - begin, chain[at - 1][0] if at else None))
            begin = end
        for key, tokens, above in reversed(spans):
            self.blocks[key] = (self.inflation, tokens, above)
            self.blocks.move_to_end(key)
        while len(self.blocks) > self.capacity:
            del self.blocks[self._victim({key for key, _ in chain})]

    def _victim(self, asked: set[str]) -> str:
        if not self.greedy:
            return next(iter(self.blocks))
        inner = {above for _, _, above in self.blocks.values()}
        leaves = [key for key in self.blocks if key not in inner]
        free = [key for key in leaves if key not in asked]
        if not free:
            return leaves[0]
        chosen = min(free, key=lambda key: sum(self.blocks[key][:2]))  # ties: the first, which is the least recent
        self.inflation = max(self.inflation, sum(self.blocks[chosen][:2]))
        return chosen


def recorded(asks: list[Ask], cache: NaiveSlots | NaiveBlocks) -> tuple[list[Row], list[Row], list[int]]:
    """Rows of ``reference_turns`` and ``reference_changes`` for turns that are served one after the other, and what each found."""
    turns: list[Row] = []
    changes: list[Row] = []
    seen: set[str] = set()
    found: list[int] = []
    for number, ask in enumerate(asks):
        at = 1_000 * (number + 1)
        start, published = cache.serve(ask)
        found.append(start)
        known = [(key, end) for key, end in ask.chain if key in seen]
        new = [(key, end) for key, end in ask.chain if key not in seen]
        seen.update(key for key, _ in ask.chain)
        prompt = ask.chain[-1][1]
        turns.append(
            {
                "trace_id": f"t{number}",
                "span_id": f"s{number}",
                "turn_id": f"q{number}",
                "conversation_id": None,
                "run": None,
                "status": "stop",
                "complete": True,
                "reads_cache": True,
                "admitted_ns": at,
                "sequence": at,
                "first_token_ns": at + 400,
                "end_ns": at + 500,
                "attempts": 1,
                "prompt_tokens": prompt,
                "output_tokens": 1,
                "seen_tokens": known[-1][1] if known else 0,
                "seen_basis": "keys",
                "found_tokens": start,
                "local_tokens": None,
                "hit_tokens": min(start, prompt - 1),
                "computed_tokens": prompt - min(start, prompt - 1),
                "compute_ns": 1_000_000_000,
                "key": ask.chain[-1][0],
                "key_tokens": prompt,
                "parent_key": known[-1][0] if known else None,
                "keys": [key for key, _ in new],
                "keys_end_tokens": [end for _, end in new],
                "tokens_each": None,
                "keys_omitted": None,
            }
        )
        for step, key in enumerate(published):
            changes.append(
                {
                    "kind": "publish",
                    "at_ns": at + 1 + step,
                    "began_ns": at,
                    "sequence": at + 1 + step,
                    "trace_id": f"t{number}",
                    "turn_id": f"q{number}",
                    "reason": None,
                    "keys": [key],
                    "parent_key": None,
                    "key_tokens": dict(ask.chain)[key],
                    "tokens_each": None,
                }
            )
    return turns, changes, found


def engine_row(**facts: Any) -> Row:
    """A row of ``reference_engines``."""
    return {
        "resource_id": "r",
        "engine": "naive",
        "replica": "0",
        "runs": [],
        "slots": None,
        "pool_tokens": None,
        "unit_tokens": 16,
        "policy": "lru_leaf",
        "turns": 1,
        "first_ns": 0,
        "last_ns": 0,
    } | facts
