"""How long the dashboard takes in a browser on a large store: until a page shows its first content, and until a changed filter has
changed it. Real headless Chromium, a real server; every page with the times that it chooses by itself, and with all of them.

Run as ``python -m benchmarks.browsing [SPANS]`` by itself. The first content is the first figure, chart, table or finding. A page is opened in a new tab whose server has shown it once: what a person waits for who keeps it open.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import filled_store
from benchmarks.table import Row, table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "dashboard" / "kit"))

import chromium

SPANS = 20_000_000
PAGES = ("", "conversations", "slots", "whatif", "compare", "cost", "sql", "health")
_RUNS = 3
_FIRST_GOAL_S, _FILTER_GOAL_S = 2.0, 1.0
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
    """Every page: its first content, and a changed filter, in seconds."""
    kept = os.environ.get("TURNLENS_BENCH_STORES")
    with TemporaryDirectory(prefix="turnlens-bench-") as made:
        filled = filled_store.filled(Path(kept) if kept else Path(made), spans)
        print(f"{filled.path}: {filled.spans:,} spans", flush=True)
        with chromium.dashboard(filled.path) as root, chromium.tab(root) as there:
            return list(_measured(there, f"{filled.spans / 1e6:,.1f} M spans"))


def _measured(there: chromium.Tab, size: str) -> Iterator[Row]:
    for last, said in (("", "its own times"), ("last=all", "all times")):
        for page in PAGES:
            address = f"/{page}?{last}"
            _first_content(there, address)
            first = [_first_content(there, address) for _ in range(_RUNS)]
            changed = [_changed_filter(there, page, last, number) for number in range(_RUNS)]
            name = page or "overview"
            yield _shown(Row(f"{name}: first content ({size}, {said})", median(first), "s", "goal", _FIRST_GOAL_S))
            if page != "sql":
                yield _shown(Row(f"{name}: another filter ({size}, {said})", median(changed), "s", "goal", _FILTER_GOAL_S))


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


def _changed_filter(there: chromium.Tab, page: str, last: str, number: int) -> float:
    """Choose another engine in the sidebar, as a person does, and wait until the page has begun to show it."""
    if page == "sql":
        return 0.0
    there.page.goto(f"{there.root}/{page}?{last}")
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
