"""The dashboard in a real browser: opened, clicked through, bookmarked, at two widths, light and dark."""

from collections.abc import Generator
from pathlib import Path

import chromium
import dashboard_scenes as scenes
import pytest
from chromium import DESKTOP, NARROW, Tab, dashboard, tab

pytestmark = [
    pytest.mark.browser,
    # Here and there a developer has no Chromium; `make test` installs Debian's.
    pytest.mark.skipif(
        not chromium.EXECUTABLE.exists(), reason=f"{chromium.EXECUTABLE} is not installed: apt-get install chromium"
    ),
    # Playwright's own event loop is closed by the interpreter, after the test.
]
PICTURES = Path(__file__).parents[2] / "test-results" / "dashboard"


@pytest.fixture(scope="module")
def server(agents_file: Path) -> Generator[str]:
    with dashboard(agents_file) as root:
        yield root


def test_the_first_address_that_a_new_server_is_asked_for_may_be_a_turn(agents_file: Path) -> None:
    with dashboard(agents_file) as root, tab(root) as there:
        there.open("/turn?turn=a-2")
        assert there.texts()[0] == "a-2"
        navigation = there.page.locator('[data-testid="stSidebarNavLink"]').all_inner_texts()
        assert [text.split("\n")[-1] for text in navigation] == ["Turns and conversations", "Turn"]
        there.assert_sound()


def test_from_the_list_to_a_turn_and_on_to_the_turn_that_evicted_it(server: str) -> None:
    with tab(server) as there:
        there.open("/")
        there.page.get_by_text("22,000 prompt tokens of 6 complete turns").wait_for()
        there.click_cell(table=0, row=3)
        assert there.page.url == f"{server}/turn?turn=a-2"
        assert there.texts()[0] == "a-2"
        there.page.get_by_text("to make room for turn b-2 of agent-b.").first.wait_for()
        there.page.get_by_role("link", name="Open").first.click()
        there.page.get_by_text("Was evicted, so that this turn had room").wait_for()
        there.settled()
        assert there.page.url == f"{server}/turn?turn=b-2"
        assert there.texts()[0] == "b-2"
        there.page.go_back()
        there.page.get_by_text("Evicted this prompt, needing its room").wait_for()
        assert there.page.url == f"{server}/turn?turn=a-2"
        there.page.get_by_role("link", name="Its conversation, turn by turn").click()
        there.page.get_by_text("Only conversation agent-a").wait_for()
        assert there.page.url == f"{server}/?conversation=agent-a"
        there.assert_sound()


def test_a_conversation_is_chosen_in_the_list_and_a_turn_in_its_chart(server: str) -> None:
    with tab(server) as there:
        there.open("/").click_cell(table=1, row=2)
        assert there.page.url == f"{server}/?conversation=agent-a"
        bars = there.page.locator(".st-key-strip .barlayer .trace").first.locator(".point")
        bars.nth(2).click(force=True)
        there.page.get_by_text("Why", exact=True).wait_for()
        there.settled()
        assert there.page.url == f"{server}/turn?conversation=agent-a&turn=a-3"
        there.assert_sound()


def test_filters_stand_in_the_address_and_going_back_brings_them_back(server: str) -> None:
    with tab(server) as there:
        there.open("/")
        there.page.get_by_label("Main cause").click()
        there.page.get_by_role("option", name="evicted.slots").click()
        there.page.get_by_text("Only main cause evicted.slots").wait_for()
        there.settled()
        assert there.page.url == f"{server}/?cause=evicted.slots"
        there.click_cell(table=0, row=0)
        assert there.page.url == f"{server}/turn?cause=evicted.slots&turn=a-2"
        there.page.go_back()
        there.page.get_by_text("Only main cause evicted.slots").wait_for()
        there.page.go_forward()
        there.page.get_by_role("link", name="Back to the list").click()
        there.page.get_by_text("Only main cause evicted.slots").wait_for()
        there.settled()
        there.page.get_by_role("button", name="Show all").click()
        there.page.get_by_text("7 turns, the latest first").wait_for()
        assert there.page.url.rstrip("?") == f"{server}/"
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


@pytest.mark.parametrize("button", range(2))
def test_a_chart_s_rows_are_saved_as_csv(server: str, button: int) -> None:
    with tab(server) as there:
        there.open("/turn?turn=a-2")
        with there.page.expect_download() as saved:
            there.page.get_by_role("button", name="CSV").nth(button).click()
        lines = Path(saved.value.path()).read_text().splitlines()
        expected = [
            ("turnlens-prompt.csv", "1600,2400,restored,evicted.slots,observed,a-1,b-2,"),
            ("turnlens-waterfall.csv", "snapshot.restore,0.1,0.2,1,800,verified,,host,"),
        ]
        name, row = expected[button]
        assert saved.value.suggested_filename == name
        assert any(line.startswith(row) for line in lines), lines
        there.assert_sound()


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "narrow"])
def test_every_page_fits_and_shows_something_light_and_dark(server: str, size: tuple[int, int]) -> None:
    addresses = {
        "list": "/",
        "conversation": "/?conversation=agent-a",
        "no-match": "/?conversation=nobody",
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
        there.open("/")
        _assert_harmless(there)
        there.click_cell(table=1, row=6)
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


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "empty.duckdb", [])
    with dashboard(file) as root:
        for size in (DESKTOP, NARROW):
            with tab(root, size) as there:
                there.open("/")
                there.page.get_by_text("No turn has arrived in this store yet.").wait_for()
                there.assert_sound()
                there.picture(PICTURES / f"empty-{size[0]}.png")
