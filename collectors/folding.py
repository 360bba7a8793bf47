"""The thread that tells facts while spans come: soon after they came, for a fifth of the time, and for half of it where it is
behind."""

import sys
import threading
import time

from turnlens.collectors.errors import UnavailableError
from turnlens.collectors.store import Store

_EVERY_SECONDS = 1.0
# After a fold it rests so many times as long as that took: with a large store and heavy traffic facts come a little later.
_REST = 4.0
_AT_ONCE_SECONDS = 2.0
# More at once is more a second (25,000 at a time 13,000 spans/s, 100,000 20,000), and this thread has nobody waiting for it.
_SPANS = 100_000
_AFTER_ERROR_SECONDS = 10.0


class Folding:
    """Calls ``Store.fold`` and ``Store.settle`` in a thread of its own. ``close`` ends it; what is not told then, the store's
    own ``close`` tells."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnlens-folding", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the fold that it is at."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        rest = _EVERY_SECONDS
        while not self._ended.wait(rest):
            began = time.monotonic()
            try:
                up_to_date = self._store.fold(_AT_ONCE_SECONDS, _SPANS) and not self._store.settle()
            except UnavailableError as error:
                sys.stderr.write(f"turnlens: {error}\n")
                rest = _AFTER_ERROR_SECONDS
            else:
                took = time.monotonic() - began
                rest = max(_EVERY_SECONDS, _REST * took) if up_to_date else took
