"""The report as a file: whole, alone, and harmless whatever engines say."""

from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path

import chromium
import dashboard_scenes as scenes
import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, sync_playwright

from turnlens.dashboard.commands import turnlens


class Elements(HTMLParser):
    """The elements of a page, and its text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text.append(data)


def written(store: Path, to: Path, *more: str) -> str:
    done = CliRunner().invoke(turnlens, ["report", "--html", str(to), "--store", str(store), *more])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{to}: ")
    return to.read_text(encoding="utf-8")


def test_what_it_says(agents_file: Path, tmp_path: Path) -> None:
    page = Elements(written(agents_file, tmp_path / "report.html"))
    text = " ".join(" ".join(page.text).split())
    for said in (
        "7 turns of 3 conversations",
        "hit 50.8 % 11,168 of 22,000 tokens",
        "recomputed 7.3 % 1,616 of 22,000 tokens",
        "evicted.slots 1 1 2,400",
        "Slots and memory: test/r0: 4 slots, 100,000 KV tokens",
        "How much may come between",
        "Times are UTC.",
    ):
        assert said in text, said


def test_it_needs_nothing_from_elsewhere(agents_file: Path, tmp_path: Path) -> None:
    page = Elements(written(agents_file, tmp_path / "report.html"))
    assert {name for _, attributes in page.tags for name in attributes} & {"src", "href", "action", "data", "srcset"} == set()
    assert {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "form", "base"} == set()


def test_hostile_text_stays_text(hostile_file: Path, tmp_path: Path) -> None:
    page = Elements(written(hostile_file, tmp_path / "report.html"))
    ours = {"html", "head", "meta", "title", "style", "script", "body", "h1", "h2", "pre", "div", "b", "small", "p", "table"}
    assert {tag for tag, _ in page.tags} <= ours | {"tr", "th", "td", "ol", "li", "br"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    text = "".join(page.text)
    assert all(piece in text for piece in scenes.HOSTILE)


def test_a_range_without_turns_and_a_file_that_cannot_be_written(agents_file: Path, tmp_path: Path) -> None:
    for arguments, said in (
        (["--html", str(tmp_path / "report.html"), "--engine", "nobody"], "There is no engine 'nobody'"),
        (["--html", str(tmp_path / "nowhere" / "report.html")], "could not be written: No such file or directory"),
    ):
        done = CliRunner().invoke(turnlens, ["report", "--store", str(agents_file), *arguments])
        assert done.exit_code in (1, 2)
        assert said in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def offline() -> Generator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.EXECUTABLE, args=chromium.FLAGS)
        try:
            yield browser.new_context(offline=True).new_page()
        finally:
            browser.close()


@pytest.mark.browser
@pytest.mark.skipif(not chromium.EXECUTABLE.exists(), reason=f"{chromium.EXECUTABLE} is not installed")
@pytest.mark.parametrize("scene", ["agents", "hostile", "only_broken"])
def test_it_is_drawn_without_a_network(scene: str, tmp_path: Path, offline: Page) -> None:
    store = scenes.file_store(tmp_path / "store.duckdb", getattr(scenes, scene)())
    written(store, tmp_path / "report.html")
    wrong: list[str] = []
    offline.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    offline.on("pageerror", lambda error: wrong.append(str(error)))
    for width in (1200, 400):
        offline.set_viewport_size({"width": width, "height": 900})
        offline.goto(f"file://{tmp_path / 'report.html'}")
        offline.wait_for_timeout(800)
        assert offline.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert offline.evaluate("window.hostile") is None
    assert offline.locator(".js-plotly-plot .main-svg").count() >= (0 if scene == "only_broken" else 5)
    assert wrong == []
