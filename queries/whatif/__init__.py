"""What if: a store's recorded references to the prefix cache, replayed with other capacities and eviction policies.

::

    from turnlens.queries import connect
    from turnlens.queries.whatif import whatif

    answer = whatif(connect("turnlens.duckdb"))
    for knee in answer.knees:
        print(knee.policy, knee.capacity, knee.unit)
"""

from collections.abc import Sequence

from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store
from turnlens.queries.whatif import policies, stream
from turnlens.queries.whatif.answers import Check, Knee, Outcome, Study, WhatIf
from turnlens.queries.whatif.policies import POLICIES, Policy
from turnlens.queries.whatif.remedies import Kept, kept
from turnlens.queries.words import counted

__all__ = ["POLICIES", "Check", "Kept", "Knee", "Outcome", "Policy", "Study", "WhatIf", "kept", "study", "whatif"]


def whatif(
    store: Store,
    engine: str | None = None,
    conversation: str | None = None,
    names: Sequence[str] = policies.DEFAULT,
    capacities: Sequence[int] | None = None,
    bytes_per_token: int | None = None,
) -> WhatIf:
    """Replay what an engine of this store was asked for.

    ``engine`` names one of several engine starts: any part of ``engine/replica run LABEL``, or its resource id.
    ``conversation`` restricts the totals, not the traffic. ``names`` are policies, ``capacities`` slots or blocks. Raises
    QueryError where nothing can be replayed, where several engines could be meant, or where a name is unknown."""
    return study(store, engine, conversation, bytes_per_token).answer(names, capacities)


def study(
    store: Store, engine: str | None = None, conversation: str | None = None, bytes_per_token: int | None = None
) -> Study:
    """The same, to ask several things of one replay."""
    return Study(stream.load(store, _chosen(store, engine)), conversation, bytes_per_token)


def _chosen(store: Store, engine: str | None) -> stream.Row:
    """The engine start that is meant."""
    found = stream.engines(store)
    if not found:
        raise QueryError(f"{store.where} holds no turn that has ended: there is nothing to replay.")
    matching = [row for row in found if engine is None or engine == row["resource_id"] or engine in stream.name_of(row)]
    exact = [row for row in matching if engine in (stream.name_of(row), *row["runs"])]
    chosen = exact if len(exact) == 1 else matching
    if len(chosen) == 1:
        return chosen[0]
    names = "\n".join(f"  {row['resource_id']}  {stream.name_of(row)}, {counted(row['turns'], 'turn')}" for row in found[:30])
    if chosen:
        raise QueryError(
            f"{len(chosen)} engine starts could be meant. Name one with --engine, by its id or a part of its name:\n{names}"
        )
    raise QueryError(f"No engine start here is called {engine!r}. There are:\n{names}")
