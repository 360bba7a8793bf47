"""Eviction policies that can be replayed. To add one, add it to ``POLICIES``: nothing else needs to know."""

from collections.abc import Callable
from dataclasses import dataclass

from turnlens.queries.errors import QueryError


@dataclass(frozen=True, slots=True)
class Policy:
    """What has the least ``weight`` goes first; among equals what was used longest ago, then what ends earliest.

    ``weight(inflation, lost)`` takes the inflation at the last use and the tokens that the eviction would lose. What goes
    raises the inflation to its own weight. ``compacts_last``: a snapshot with a single child, which loses no tokens, goes only
    when no leaf can; otherwise it competes with the leaves, with nothing lost."""

    name: str
    brief: str
    weight: Callable[[float, int], float]
    compacts_last: bool


def _alike(inflation: float, lost: int) -> float:
    return 0.0


def _greedy_dual_size(inflation: float, lost: int) -> float:
    return inflation + lost


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("lru_leaf", "the least recently used leaf goes first, however long its prefix is", _alike, compacts_last=True),
        Policy(
            "greedy_dual_size", "what would lose the fewest tokens goes first, and age wears this off", _greedy_dual_size, False
        ),
    )
}
DEFAULT = tuple(POLICIES)
# What engines call the same thing. Among blocks the least recently used one never has another below it.
_ALSO = {"lru": "lru_leaf"}


def recorded(name: str | None) -> Policy | None:
    """The policy that an engine said it had, or None for one that cannot be replayed."""
    return None if name is None else POLICIES.get(_ALSO.get(name, name))


def named(name: str) -> Policy:
    """The policy of this name. Raises QueryError."""
    try:
        return POLICIES[name]
    except KeyError:
        raise QueryError(f"There is no policy {name!r} to replay. There are: {', '.join(POLICIES)}.") from None
