"""The store that the dashboard shows, opened for one run of a page and let go afterwards.

It is not kept open between runs, on purpose: a file that is open for reading cannot be opened by a collector for writing, so a
dashboard in a forgotten tab would keep the collector from starting. Opening costs 20-30 ms. It also is why nothing special is
needed when a collector stops or comes back, or when the file is replaced: the next run finds what is there then.
"""

import argparse
from collections.abc import Generator
from contextlib import contextmanager

from turnlens.queries import connect
from turnlens.queries.store import Store


def named() -> str | None:
    """The path or URL after ``--store`` on the command line, or None for what ``connect`` takes by default."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--store")
    store: str | None = parser.parse_known_args()[0].store
    return store


@contextmanager
def opened() -> Generator[Store]:
    """The store, for as long as the body runs. Raises StoreError with the next step in its message."""
    store = connect(named())
    try:
        yield store
    finally:
        store.close()
