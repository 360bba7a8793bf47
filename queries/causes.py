"""Names of causes that somebody asks for: one that there cannot be is refused with those that may be meant."""

from difflib import get_close_matches

from turnlens.queries.errors import UnknownCauseError
from turnlens.queries.store import Store


def check(store: Store, cause: str) -> None:
    """Raises UnknownCauseError for a cause that is none (macro ``cause_names``)."""
    if store.query("select 1 from cause_names() where cause = ? limit 1", [cause]).num_rows == 0:
        known = [str(row["cause"]) for row in store.query("select cause from cause_names()").to_pylist()]
        near = get_close_matches(cause, known, 5)
        there = f"Is one of these meant: {', '.join(near)}?" if near else "`turnlens sql 'from cause_names()'` lists them."
        raise UnknownCauseError(f"There is no cause {cause!r}. {there}")
