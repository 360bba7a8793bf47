"""A real server and a real browser: ``turnlens dashboard`` as a process, and Debian's Chromium driven by Playwright."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

EXECUTABLE = Path("/usr/bin/chromium")
# As root there is no sandbox; without the others Chromium looks for the web at every start, and the tests' machine has none.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP, NARROW = (1440, 900), (400, 800)
# Asked for below a page, Streamlit's frontend tries there for its server before it tries at the root: two answers of 404.
KNOWN_NOISE = re.compile(r"/\w+/_stcore/(health|host-config)$")
READY_SECONDS = 60


@contextmanager
def dashboard(store: Path | str) -> Generator[str]:
    """The address of a dashboard of this store, served by the real command on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = "from turnlens.dashboard.cli import main; main()"
    command = [sys.executable, "-c", start, "dashboard", "--port", str(port), "--store", str(store)]
    with tempfile.TemporaryFile() as log:
        # The command has a child: both are ended as the one group that they are.
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait_until_ready(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the dashboard did not start (exit code {process.poll()})")


class Tab:
    """A browser's tab on the dashboard at ``root``. What goes wrong in it is kept in ``complaints``."""

    def __init__(self, page: Page, root: str) -> None:
        self.page = page
        self.root = root
        self.complaints: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on("requestfailed", lambda request: self.complaints.append(f"request failed: {request.url}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not KNOWN_NOISE.search(message.location["url"]):
            self.complaints.append(f"console: {message.text} ({message.location['url']})")

    def open(self, address: str) -> "Tab":
        """Go to an address and wait until the page stands."""
        self.page.goto(self.root + address)
        return self.settled()

    def settled(self) -> "Tab":
        """Wait until the page has been run and drawn."""
        self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=30_000)
        self.page.wait_for_function("document.querySelectorAll('[data-testid=stSkeleton]').length === 0", timeout=30_000)
        self.page.wait_for_timeout(700)  # charts and tables are drawn after they have arrived
        return self

    def click_cell(self, table: int, row: int) -> "Tab":
        """Click into the first column of a row of a table, as a person would: tables are drawn on a canvas."""
        frame = self.page.locator('[data-testid="stDataFrame"]').nth(table)
        frame.scroll_into_view_if_needed()
        frame.click(position={"x": 40, "y": 35 * (row + 1) + 17})
        self.page.wait_for_timeout(500)
        return self.settled()

    def texts(self) -> list[str]:
        """Everything that the page shows as plain text."""
        return self.page.locator('[data-testid="stMain"] [data-testid="stText"]').all_inner_texts()

    def assert_sound(self) -> None:
        """No exception shown, nothing in the console, no sideways scrolling."""
        assert self.page.locator('[data-testid="stException"]').count() == 0
        assert self.complaints == []
        wide, high = self.page.evaluate(
            "[document.documentElement.scrollWidth - innerWidth, (m => m.scrollWidth - m.clientWidth)"
            "(document.querySelector('[data-testid=stMain]'))]"
        )
        assert (wide <= 0, high <= 0) == (True, True), f"{wide}, {high} pixels too wide at {self.page.url}"

    def picture(self, file: Path) -> tuple[int, int, int]:
        """Save the whole page, and check that there is something on it. Returns the colour of its background."""
        size = self.page.viewport_size
        assert size is not None
        height = int(self.page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight"))
        self.page.set_viewport_size({"width": size["width"], "height": max(size["height"], height + 20)})
        self.page.wait_for_timeout(600)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=file)
        self.page.set_viewport_size(size)
        with Image.open(file) as image:
            pixels = image.width * image.height
            colours = image.convert("RGB").getcolors(maxcolors=pixels) or []
        assert len(colours) > 50, f"{file} shows next to nothing"
        count, ground = max(colours)
        assert count < 0.99 * pixels, f"{file} is all of one colour"
        assert isinstance(ground, tuple)
        return ground[0], ground[1], ground[2]


@contextmanager
def tab(root: str, size: tuple[int, int] = DESKTOP, zone: str = "UTC") -> Generator[Tab]:
    """A new browser with one tab, of somebody who lives in a time zone."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=EXECUTABLE,
            headless=True,
            args=FLAGS,
            viewport={"width": size[0], "height": size[1]},
            color_scheme="light",
            timezone_id=zone,
        )
        try:
            yield Tab(context.pages[0] if context.pages else context.new_page(), root)
        finally:
            context.close()
