"""The dashboard in a real browser: opened, clicked through, bookmarked, at two widths, light and dark."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import chromium
import dashboard_scenes as scenes
import duckdb
import pytest
from chromium import DESKTOP, NARROW, Tab, dashboard, tab
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings

pytestmark = [
    pytest.mark.browser,
    # Here and there a developer has no Chromium; `make test` installs Debian's.
    pytest.mark.skipif(
        not chromium.EXECUTABLE.exists(), reason=f"{chromium.EXECUTABLE} is not installed: apt-get install chromium"
    ),
    # Playwright's own event loop is closed by the interpreter, after the test.
]
NAVIGATION = ["Overview", "Conversations", "Turn", "Slots and memory", "What if", "Compare", "Cost", "SQL", "Health"]
PICTURES = Path(__file__).parents[2] / "test-results" / "dashboard"


@pytest.fixture(scope="module")
def server(agents_file: Path) -> Generator[str]:
    with dashboard(agents_file) as root:
        yield root


def test_the_first_address_that_a_new_server_is_asked_for_may_be_a_turn(agents_file: Path) -> None:
    with dashboard(agents_file) as root, tab(root) as there:
        there.open("/turn?turn=a-2")
        assert there.texts()[0] == "a-2"
        links = there.page.locator('[data-testid="stSidebar"] [data-testid="stPageLink"]').all_inner_texts()
        assert [text.split("\n")[-1] for text in links] == NAVIGATION
        there.assert_sound()


def test_from_the_overview_to_a_turn_and_on_to_the_turn_that_evicted_it(server: str) -> None:
    """What an operator does who has two minutes: which cause costs the most, one of its turns, its evidence, the other side."""
    with tab(server) as there:
        there.open("/")
        there.page.get_by_text("22,000 prompt tokens of 6 complete turns").wait_for()
        there.page.locator(".st-key-lost .barlayer .point").nth(1).click(force=True)
        there.page.get_by_text("Only cause evicted.slots").wait_for()
        there.settled()
        assert there.page.url == f"{server}/conversations?cause=evicted.slots&from=overview"
        there.click_cell(table=0, row=0)
        assert there.page.url == f"{server}/turn?cause=evicted.slots&from=overview&turn=a-2"
        assert there.texts()[0] == "a-2"
        there.page.get_by_text("to make room for turn b-2 of agent-b.").first.wait_for()
        there.page.get_by_text("The life of what it asked for").wait_for()
        assert any(text.startswith("Trace ") for text in there.texts())
        there.page.locator('[data-testid="stMain"]').get_by_role("link", name="Open").first.click()
        there.page.get_by_text("Was evicted, so that this turn had room").wait_for()
        there.settled()
        assert there.page.url == f"{server}/turn?cause=evicted.slots&from=overview&turn=b-2"
        assert there.texts()[0] == "b-2"
        there.page.go_back()
        there.page.get_by_text("Evicted this prompt, needing its room").wait_for()
        assert there.page.url == f"{server}/turn?cause=evicted.slots&from=overview&turn=a-2"
        there.page.get_by_role("link", name="Its conversation, turn by turn").click()
        there.page.get_by_text("Only conversation agent-a").wait_for()
        assert there.page.url == f"{server}/conversations?conversation=agent-a"
        there.assert_sound()


def test_a_conversation_is_chosen_in_the_list_and_a_turn_in_its_chart(server: str) -> None:
    with tab(server) as there:
        there.open("/conversations").click_cell(table=0, row=2)
        assert there.page.url == f"{server}/conversations?conversation=agent-a"
        bars = there.page.locator(".st-key-strip .barlayer .trace").first.locator(".point")
        bars.nth(2).click(force=True)
        there.page.get_by_text("Why", exact=True).wait_for()
        there.settled()
        assert there.page.url == f"{server}/turn?conversation=agent-a&turn=a-3"
        there.assert_sound()


def test_a_turn_is_chosen_among_small_charts(server: str) -> None:
    with tab(server) as there:
        there.open("/conversations?order=longest")
        there.page.locator(".st-key-beside .barlayer .trace").first.locator(".point").nth(2).click(force=True)
        there.page.get_by_text("Why", exact=True).wait_for()
        there.settled()
        assert there.texts()[0] == "a-3"
        there.assert_sound()


def test_filters_stand_in_the_address_and_going_back_brings_them_back(server: str) -> None:
    with tab(server) as there:
        there.open("/conversations")
        there.page.get_by_label("Cause", exact=True).click()
        there.page.get_by_role("option", name="evicted.slots").click()
        there.page.get_by_text("Only cause evicted.slots").wait_for()
        there.settled()
        assert there.page.url == f"{server}/conversations?cause=evicted.slots"
        there.click_cell(table=0, row=0)
        assert there.page.url == f"{server}/turn?cause=evicted.slots&turn=a-2"
        there.page.go_back()
        there.page.get_by_text("Only cause evicted.slots").wait_for()
        there.page.go_forward()
        there.page.get_by_role("link", name="Back to the list").click()
        there.page.get_by_text("Only cause evicted.slots").wait_for()
        there.settled()
        there.page.get_by_role("button", name="Show all").click()
        there.page.get_by_text("7 turns, the latest first").wait_for()
        assert there.page.url.rstrip("?") == f"{server}/conversations"
        there.assert_sound()


def test_going_back_from_what_was_clicked_finds_the_overview_as_it_was(server: str) -> None:
    with tab(server) as there:
        there.open("/?engine=test")
        there.click_cell(table=0, row=1)
        assert there.page.url == f"{server}/conversations?engine=test&conversation=agent-a&from=overview"
        there.page.go_back()
        there.page.get_by_text("22,000 prompt tokens of 6 complete turns").wait_for()
        there.settled()
        assert there.page.url == f"{server}/?engine=test"
        there.page.go_forward()
        there.page.get_by_role("heading", name="The conversation, turn by turn").wait_for()
        there.settled()
        assert there.page.url == f"{server}/conversations?engine=test&conversation=agent-a&from=overview"
        there.page.reload()
        there.settled().page.go_back()
        there.page.get_by_text("22,000 prompt tokens of 6 complete turns").wait_for()
        there.settled()
        assert there.page.url == f"{server}/?engine=test"
        there.page.go_forward()
        there.page.get_by_role("heading", name="The conversation, turn by turn").wait_for()
        there.settled()
        there.page.locator('[data-testid="stSidebar"]').get_by_role("link", name="Overview").click()
        there.page.get_by_text("Only engine test · conversation agent-a").wait_for()
        there.settled()
        assert there.page.url == f"{server}/?engine=test&conversation=agent-a"
        there.assert_sound()


def test_filters_go_along_and_a_bookmark_brings_them(server: str) -> None:
    with tab(server) as there:
        there.open("/?conversation=agent-a&last=all")
        for name in ("What if", "Conversations"):
            there.page.locator('[data-testid="stSidebar"]').get_by_role("link", name=name).click()
            there.page.get_by_role("heading", name=name).first.wait_for()
            there.page.get_by_text("Only conversation agent-a").wait_for()
            there.settled()
        assert there.page.url == f"{server}/conversations?last=all&conversation=agent-a"
        there.page.reload()
        there.page.get_by_text("Only conversation agent-a").wait_for()
        there.settled().assert_sound()


def test_times_are_those_of_who_looks(server: str) -> None:
    """14:13:26 UTC is 23:13:26 in Tokyo; the text to be copied stays in UTC, and so does the address."""
    with tab(server, zone="Asia/Tokyo") as there:
        there.open("/turn?turn=a-2")
        assert there.texts()[1].startswith("2026-09-21 23:13:26 · conversation agent-a")
        assert any("It was evicted at 23:13:2" in text for text in there.texts())
        there.page.get_by_text("The explanation as text").click()
        there.page.get_by_text("2026-09-21 14:13:26 UTC").wait_for()
        there.open("/?since=2026-09-21T14:13:20Z")
        there.page.get_by_text("Only from 2026-09-21 23:13:20").wait_for()
        assert there.page.locator('[data-testid="stSidebar"]').get_by_text("Asia/Tokyo").count() == 1
        there.assert_sound()


def test_sql_is_written_and_its_result_saved(server: str) -> None:
    with tab(server) as there:
        there.open("/sql")
        box = there.page.get_by_role("textbox", name="Read-only SQL of DuckDB")
        box.fill("select turn_id, prompt_tokens from turns order by prompt_tokens desc limit 3")
        box.press("Control+Enter")
        there.page.get_by_text("3 rows.").wait_for()
        there.settled()
        for form, name in (("CSV", "turnlens-result.csv"), ("Parquet", "turnlens-result.parquet")):
            with there.page.expect_download() as saved:
                there.page.locator(".st-key-saved").get_by_role("button", name=form).click()
            assert saved.value.suggested_filename == name
            rows = duckdb.sql(f"from read_{form.lower()}('{saved.value.path()}')")
            assert rows.fetchall() == [("a-3", 5_400), ("a-2", 5_000), ("a-1", 4_000)]
        there.page.get_by_text("As a chart").click()
        there.page.locator(".st-key-result-chart .barlayer .point").nth(2).wait_for()
        there.settled().assert_sound()


def test_live_shows_what_comes_and_keeps_the_place(tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    story = scenes.Story()
    story.now = 60
    story.turn("z-1", "agent-z", 3_000)
    with Collector(Settings(store=file, http_port=0, grpc_port=0)) as collector:
        url = collector.http_url
        with dashboard(url) as root, tab(root) as there:
            there.open("/?live=True&last=all")
            there.page.get_by_text("22,000 prompt tokens of 6 complete turns").wait_for()
            there.page.get_by_role("heading", name="What to do").scroll_into_view_if_needed()
            place = there.page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop")
            assert place > 100
            exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
            assert exporter.export(story.spans()) is SpanExportResult.SUCCESS
            there.page.get_by_text("25,000 prompt tokens of 7 complete turns").wait_for(state="attached", timeout=30_000)
            there.settled()
            assert abs(there.page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop") - place) < 60
            there.assert_sound()


def test_clicks_find_what_was_clicked_while_turns_come(tmp_path: Path) -> None:
    """Bars and a row of a list, each drawn before turns came that are there by the time that the page is run for the click."""
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    ended = threading.Event()

    def send(url: str) -> None:
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
        number = 0
        while not ended.wait(0.3):
            story = scenes.Story(engine="other", ids=RandomIdGenerator())
            story.now = 60.0 + number
            story.turn(f"z-{number}-1", "agent-z", 3_000)
            story.turn(f"z-{number}-2", "agent-z", 3_600, hit=1_600, restored=800, evicts=("agent-z", 100, 180))
            assert exporter.export(story.spans()) is SpanExportResult.SUCCESS
            number += 1

    with ExitStack() as stack:
        collector = stack.enter_context(Collector(Settings(store=file, http_port=0, grpc_port=0)))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        with dashboard(collector.http_url) as root, tab(root) as there:
            sender = pool.submit(send, collector.http_url)
            try:
                there.open("/?last=all")
                there.page.locator(".st-key-lost .barlayer .point").first.click(force=True)
                there.page.get_by_text("Only cause ").wait_for()
                there.open("/conversations?conversation=agent-a&last=all")
                there.click_cell(table=0, row=0)
                there.page.get_by_text("Why", exact=True).wait_for()
                assert there.texts()[0] == "a-3"
                there.open("/conversations?conversation=agent-a&last=all")
                there.page.locator(".st-key-strip .barlayer .trace").first.locator(".point").nth(1).click(force=True)
                there.page.get_by_text("Why", exact=True).wait_for()
                assert there.texts()[0] == "a-2"
            finally:
                ended.set()
            sender.result()
            there.assert_sound()


def test_a_turn_is_found_by_its_id(server: str) -> None:
    with tab(server) as there:
        there.open("/turn")
        there.page.get_by_label("Find a turn").fill("b-33")
        there.page.keyboard.press("Enter")
        there.page.get_by_text("There is no turn 'b-33'").wait_for()
        there.settled()
        there.page.get_by_role("link", name="Open").first.click()
        there.page.get_by_text("The cache was fine; the turn waited in the queue for 2.0 s of 2.2 s.").wait_for()
        there.settled()
        assert there.page.url == f"{server}/turn?turn=b-3"
        there.assert_sound()


@pytest.mark.parametrize("button", range(3))
def test_a_chart_s_rows_are_saved_as_csv(server: str, button: int) -> None:
    with tab(server) as there:
        there.open("/turn?turn=a-2")
        with there.page.expect_download() as saved:
            there.page.get_by_role("button", name="CSV").nth(button).click()
        lines = Path(saved.value.path()).read_text().splitlines()
        expected = [
            ("turnlens-prompt.csv", "1600,2400,restored,evicted.slots,observed,a-1,b-2,"),
            ("turnlens-life.csv", "1600,2400,restored,evicted.slots,"),
            ("turnlens-waterfall.csv", "snapshot.restore,0.1,0.2,1,800,verified,,host,"),
        ]
        name, row = expected[button]
        assert saved.value.suggested_filename == name
        assert any(line.startswith(row) for line in lines), lines
        there.assert_sound()


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "narrow"])
def test_every_page_fits_and_shows_something_light_and_dark(server: str, size: tuple[int, int]) -> None:
    addresses = {
        "overview": "/",
        "conversations": "/conversations",
        "conversation": "/conversations?conversation=agent-a",
        "no-match": "/conversations?conversation=nobody",
        "slots": "/slots",
        "whatif": "/whatif",
        "compare": "/compare",
        "cost": "/cost",
        "sql": "/sql",
        "health": "/health",
        "turn": "/turn?turn=a-2",
        "incomplete": "/turn?turn=c-1",
        "unknown": "/turn?turn=x",
        "none": "/turn",
    }
    with tab(server, size) as there:
        for name, address in addresses.items():
            there.open(address).assert_sound()
            light = there.picture(PICTURES / f"{name}-{size[0]}-light.png")
            there.page.emulate_media(color_scheme="dark")
            dark = there.picture(PICTURES / f"{name}-{size[0]}-dark.png")
            there.page.emulate_media(color_scheme="light")
            assert min(light) > 240
            assert max(dark) < 50


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "narrow"])
def test_hostile_text_stays_text(hostile_file: Path, size: tuple[int, int]) -> None:
    image, bold = scenes.HOSTILE[1], scenes.HOSTILE[0]
    with dashboard(hostile_file) as root, tab(root, size) as there:
        for page in ("", "slots", "whatif", "compare", "cost", "sql", "health"):
            there.open(f"/{page}")
            _assert_harmless(there)
            there.picture(PICTURES / f"hostile-{page or 'overview'}-{size[0]}.png")
        there.open("/conversations")
        _assert_harmless(there)
        there.click_cell(table=0, row=6)
        there.page.get_by_text(f"Only conversation {bold}").wait_for()
        there.page.locator(".st-key-strip .barlayer .trace").first.locator(".point").nth(1).hover(force=True)
        hover = there.page.locator(".hoverlayer .hovertext").first
        hover.wait_for()
        assert f"turn 2: {bold} again" in (hover.text_content() or "")
        _assert_harmless(there)
        there.picture(PICTURES / f"hostile-conversation-{size[0]}.png")
        there.open(f"/turn?turn={image.replace('=', '%3D').replace(' ', '%20')}%20again")
        assert there.texts()[0] == f"{image} again"
        _assert_harmless(there)
        there.picture(PICTURES / f"hostile-turn-{size[0]}.png")


def _assert_harmless(there: Tab) -> None:
    there.assert_sound()
    assert there.page.evaluate("window.hostile") is None
    main = there.page.locator('[data-testid="stMain"]')
    assert (
        main.locator('img[src="x"], b, a[href^="javascript"], .katex, [data-testid="stIconMaterial"]:text-is("home")').count()
        == 0
    )


def test_a_store_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    with dashboard(file) as root, tab(root) as there:
        there.open("/")
        away = file.rename(tmp_path / "away.duckdb")
        there.page.get_by_role("button", name="Refresh").click()
        there.page.get_by_text("The store cannot be read now.").wait_for()
        there.settled().assert_sound()
        there.picture(PICTURES / "store-away.png")
        away.rename(file)
        there.page.get_by_role("button", name="Try again").click()
        there.page.get_by_text("22,000 prompt tokens of 6 complete turns").wait_for()
        there.settled().assert_sound()


def test_a_collector_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    with Collector(Settings(store=file, http_port=0, grpc_port=0)) as collector, ExitStack() as open_tabs:
        url = collector.http_url
        root = open_tabs.enter_context(dashboard(url))
        there = open_tabs.enter_context(tab(root))
        there.open("/slots")
        there.page.get_by_text("How full they were").wait_for()
        kept = open_tabs.pop_all()
    with kept:
        there.page.get_by_role("button", name="Refresh").click()
        there.page.get_by_text("The store cannot be read now.").wait_for()
        there.settled().assert_sound()
        with Collector(Settings(store=file, http_port=int(url.rpartition(":")[2]), grpc_port=0)):
            there.page.get_by_role("button", name="Try again").click()
            there.page.get_by_text("How full they were").wait_for()
            there.settled().assert_sound()


def test_a_store_with_broken_turns_alone(tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "broken.duckdb", scenes.only_broken())
    with dashboard(file) as root, tab(root) as there:
        for page in ("", "conversations", "turn?turn=c-1", "slots", "whatif", "compare", "cost", "sql", "health"):
            there.open(f"/{page}").assert_sound()
            there.picture(PICTURES / f"broken-{page.partition('?')[0] or 'overview'}.png")


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "empty.duckdb", [])
    with dashboard(file) as root:
        for size in (DESKTOP, NARROW):
            with tab(root, size) as there:
                there.open("/")
                there.page.get_by_text("No turn has arrived in this store yet.").wait_for()
                there.assert_sound()
                there.picture(PICTURES / f"empty-{size[0]}.png")
