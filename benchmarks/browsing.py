"""How long the dashboard takes in a browser on a large store: until a page shows its first content, and until a changed filter
has changed it; and how long senders wait for a collector that is asked by it. Real headless Chromium and real servers.

Run as ``python -m benchmarks.browsing [SPANS]`` by itself. The first content is the first figure, chart, table or finding:
the median of four looks, the first one among them.
"""

import argparse
import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import requests

from benchmarks import filled_store, ingesting
from benchmarks.table import Row, table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "dashboard" / "kit"))

import chromium

SPANS = 20_000_000
PAGES = ("", "conversations", "slots", "whatif", "compare", "cost", "sql", "health")
_RUNS = 3
_FIRST_GOAL_S, _FILTER_GOAL_S, _ACKNOWLEDGED_GOAL_S = 2.0, 1.0, 1.0
_LOAD = 0.1  # of what the collector takes at most
_MOST_MS = 120_000
# Not the title, the filters in words, or what the page can be set to.
_CONTENT = ", ".join(
    f'[data-testid="stMain"] {kind}'
    for kind in (
        '[data-testid="stMetric"]',
        '[data-testid="stPlotlyChart"]',
        '[data-testid="stDataFrame"]',
        '[data-testid="stAlert"]',
        '[class*="st-key-strong"] [data-testid="stText"]',
    )
)
_FRESH = "content => [...document.querySelectorAll(content)].some(each => !each.closest('[data-stale=true]'))"


def rows(spans: int = SPANS) -> list[Row]:
    """Every page: its first content, and a changed filter, in seconds; then the same pages while a collector takes spans."""
    kept = os.environ.get("TURNLENS_BENCH_STORES")
    with TemporaryDirectory(prefix="turnlens-bench-") as made:
        filled = filled_store.filled(Path(kept) if kept else Path(made), spans)
        size = f"{filled.spans / 1e6:,.1f} M spans"
        print(f"{filled.path}: {filled.spans:,} spans", flush=True)
        with chromium.dashboard(filled.path) as root, chromium.tab(root) as there:
            found = [*_automatic(there, size), *_everything(there, size)]
        return found + _loaded(filled.path, Path(made), size)


def _automatic(there: chromium.Tab, size: str) -> Iterator[Row]:
    """Every page with the times that it chooses by itself."""
    for page in PAGES:
        name = page or "overview"
        first = median(_first_content(there, f"/{page}") for _ in range(1 + _RUNS))
        yield _shown(Row(f"{name}: first content ({size})", first, "s", "goal", _FIRST_GOAL_S))
        if page != "sql":
            changed = median(_changed_filter(there, page, number) for number in range(_RUNS))
            yield _shown(Row(f"{name}: another filter ({size})", changed, "s", "goal", _FILTER_GOAL_S))


def _everything(there: chromium.Tab, size: str) -> Iterator[Row]:
    """Every page over all that the store has, once."""
    for page in PAGES:
        if page != "sql":
            taken = _first_content(there, f"/{page}?last=all")
            yield _shown(Row(f"{page or 'overview'}: first content of all times ({size})", taken, "s"))


def _loaded(store: Path, folder: Path, size: str) -> list[Row]:
    """How long batches wait for their acknowledgment while every page is opened twice, at a tenth of the full load; and how
    long these pages take then."""
    copy = folder / "loaded.duckdb"
    shutil.copyfile(store, copy)
    taken: list[float] = []
    with ingesting.collector(copy) as url:
        full = ingesting.BATCH * ingesting.BATCHES / ingesting.ingest_seconds(ingesting.bodies())
        pause = ingesting.BATCH / (full * _LOAD)
        with _sending(url, pause) as waits, chromium.dashboard(url) as root, chromium.tab(root) as there:
            taken += [_first_content(there, f"/{page}") for page in PAGES * 2]
    copy.unlink()
    waits.sort()
    slow = waits[int(0.95 * len(waits))]
    of = f"{size}, {full * _LOAD:,.0f} spans/s meanwhile"
    return [
        _shown(Row(f"a batch acknowledged, 95 % of {len(waits):,} ({of})", slow, "s", "goal", _ACKNOWLEDGED_GOAL_S)),
        _shown(Row(f"a page's first content, median of {len(taken)} ({of})", median(taken), "s", "goal", _FIRST_GOAL_S)),
    ]


@contextmanager
def _sending(url: str, pause: float) -> Generator[list[float]]:
    """Send batches of new spans at a steady pace. The list fills with how long each waited for its acknowledgment, from when it
    was due [s]: those that one waits for wait, too. Raises what sending raised."""
    waits: list[float] = []
    ended = threading.Event()

    def send() -> None:
        begun = time.perf_counter()
        with requests.Session() as session:
            for number in itertools.count(1):
                body = ingesting.body(number, ingesting.LATER_NS)
                due = begun + number * pause
                if ended.wait(max(0.0, due - time.perf_counter())):
                    return
                session.post(f"{url}/v1/traces", data=body, headers=ingesting.HEADERS, timeout=60).raise_for_status()
                waits.append(time.perf_counter() - due)

    with ThreadPoolExecutor(1) as pool:
        sender = pool.submit(send)
        try:
            yield waits
        finally:
            ended.set()
        sender.result()


def _shown(row: Row) -> Row:
    print(table([row]).splitlines()[-1], flush=True)
    return row


def _first_content(there: chromium.Tab, address: str) -> float:
    there.page.goto("about:blank")
    begun = time.perf_counter()
    there.page.goto(there.root + address, wait_until="commit")
    there.page.wait_for_selector(_CONTENT, timeout=_MOST_MS)
    taken = time.perf_counter() - begun
    there.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=_MOST_MS)
    return taken


def _changed_filter(there: chromium.Tab, page: str, number: int) -> float:
    """Choose another engine in the sidebar, as a person does, and wait until the page has begun to show it."""
    there.page.goto(f"{there.root}/{page}")
    there.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=_MOST_MS)
    there.page.wait_for_timeout(500)
    there.page.get_by_label("Engine", exact=True).click()
    option = there.page.get_by_role("option").nth(number % 2)
    engine = option.inner_text()
    begun = time.perf_counter()
    option.click()
    there.page.get_by_text(f"Only engine {engine}").wait_for(timeout=_MOST_MS)
    there.page.wait_for_function(_FRESH, arg=_CONTENT, timeout=_MOST_MS)
    taken = time.perf_counter() - begun
    there.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=_MOST_MS)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browsing", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spans", nargs="?", type=lambda text: round(float(text)), default=SPANS)
    print(table(rows(parser.parse_args().spans)))


if __name__ == "__main__":
    main()
