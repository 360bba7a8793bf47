"""Conversations and turns: the sums, the lists, every filter, the pages of a list."""

from collections.abc import Callable
from pathlib import Path

import dashboard_scenes as scenes
import pytest

ALL = ["c-1", "b-3", "a-3", "a-2", "b-2", "b-1", "a-1"]


def turn_ids(app) -> list[str]:
    return [row["turn_id"] for row in app.table(-1)]


def test_sums_have_their_denominators_and_leave_incomplete_turns_out(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations")
    assert app.figures() == {"hit": "50.8 %", "restored": "3.6 %", "recomputed": "7.3 %", "new": "38.3 %"}
    captions = [item.value for item in app.page.caption]
    assert "22,000 prompt tokens of 6 complete turns. Left out: 1 incomplete turn." in captions
    assert [text for text in captions if " of 22,000 tokens" in text] == [
        "11,168 of 22,000 tokens",
        "800 of 22,000 tokens",
        "1,616 of 22,000 tokens",
        "8,416 of 22,000 tokens",
    ]
    assert app.texts()[0] == (
        "Reuse: 88.1 % of what had been seen before was hit or restored (11,968 of 13,584 tokens). "
        "First token: 760 ms in the median."
    )


def test_the_list_shows_the_latest_first_and_says_why_a_turn_is_incomplete(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations")
    rows = app.table(1)
    assert [row["turn_id"] for row in rows] == ALL
    assert {name: rows[0][name] for name in ("verdict", "incomplete_because", "unobserved_tokens")} == {
        "verdict": "incomplete",
        "incomplete_because": "positions_unobserved",
        "unobserved_tokens": 500,
    }
    assert {
        name: rows[3][name] for name in ("conversation_id", "hit_tokens", "restored_tokens", "recomputed_tokens", "ask")
    } == {
        "conversation_id": "agent-a",
        "hit_tokens": 1_600,
        "restored_tokens": 800,
        "recomputed_tokens": 1_600,
        "ask": "a-2",
    }
    conversations = app.table(0)
    assert [(row["conversation_id"], row["turns"], row["incomplete_turns"]) for row in conversations] == [
        ("agent-c", 1, 1),
        ("agent-b", 3, 0),
        ("agent-a", 3, 0),
    ]


@pytest.mark.parametrize(
    ("name", "value", "turns"),
    [
        ("conversation", "agent-b", ["b-3", "b-2", "b-1"]),
        ("verdict", "recomputed", ["a-2"]),
        ("verdict", "incomplete", ["c-1"]),
        ("cause", "evicted.slots", ["a-2"]),
        ("cause", "not_cache.queue", ["b-3"]),
    ],
)
def test_a_filter_is_chosen_and_stands_in_the_address(
    open_app: Callable, agents_file: Path, name: str, value: str, turns: list[str]
) -> None:
    app = open_app(agents_file).at("conversations")
    app.page.selectbox(f"filter-{name}").select(value)
    app.again()
    assert app.page.query_params == {name: value}
    assert turn_ids(app) == turns
    # The same address, opened by somebody else.
    other = open_app(agents_file).at("conversations", **{name: value})
    assert turn_ids(other) == turns
    assert other.page.selectbox(f"filter-{name}").value == value
    other.page.button("show-all").click()
    other.again()
    assert other.page.query_params == {}
    assert turn_ids(other) == ALL


def test_filters_hold_together(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations", conversation="agent-a", verdict="hit")
    assert turn_ids(app) == ["a-3"]
    assert app.figures()["hit"] == "92.4 %"
    assert "Only conversation agent-a · verdict hit" in app.texts()


def test_a_filter_that_nothing_matches(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations", conversation="nobody", page="7")
    assert [item.value for item in app.page.info] == ["No turn matches these filters."]
    assert app.page.selectbox("filter-conversation").value == "nobody"
    app.page.button("show-all").click()
    assert turn_ids(app.again()) == ALL


def test_a_cause_that_there_cannot_be(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations", cause="evicted.slot")
    assert [item.value for item in app.page.warning] == ["No turn can have this cause."]
    assert app.texts()[1].startswith("There is no cause 'evicted.slot'. Is one of these meant: evicted.slots, ")
    assert app.page.selectbox("filter-cause").value == "evicted.slot"
    assert not app.page.error


def test_a_chosen_conversation_is_drawn_turn_by_turn(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations", conversation="agent-a")
    strip = app.charts()[1]
    by_name = {trace["name"]: trace for trace in strip["data"]}
    assert {name: trace["y"] for name, trace in by_name.items()} == {
        "hit": [0, 1_600, 4_992],
        "restored": [0, 800, 0],
        "recomputed": [0, 1_600, 0],
        "new": [4_000, 1_000, 408],
        "first token": [1.0, 0.92, 0.2816],
    }
    assert by_name["first token"]["yaxis"] == "y2"
    assert [point[0] for point in by_name["hit"]["customdata"]] == ["a-1", "a-2", "a-3"]
    assert strip["layout"]["yaxis"]["title"]["text"] == "prompt [tokens]"
    assert strip["layout"]["yaxis2"]["title"]["text"] == "first token [s]"
    assert len(app.page.dataframe) == 1  # the conversations give way to the one


def test_an_incomplete_turn_is_marked_in_its_conversation(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("conversations", conversation="agent-c")
    assert [item.value for item in app.page.warning] == [
        "None of these turns is complete, so there is nothing to add up. The list below says why."
    ]
    (strip,) = app.charts()
    assert [trace["name"] for trace in strip["data"]] == ["new", "unobserved", "first token", "incomplete turn"]


@pytest.fixture(scope="module")
def many_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenes.file_store(tmp_path_factory.mktemp("many") / "many.duckdb", scenes.many(60))


def test_long_lists_have_pages(open_app: Callable, many_file: Path) -> None:
    app = open_app(many_file).at("conversations")
    assert turn_ids(app) == [f"t-{number}" for number in range(59, 34, -1)]
    app.page.get_by_key("pages-page-1").select(3)
    app.again()
    assert app.page.query_params == {"page": "3"}
    assert turn_ids(app) == [f"t-{number}" for number in range(9, -1, -1)]
    app.page.get_by_key("pages-conversations-1").select(2)
    app.again()
    assert app.page.query_params == {"page": "3", "conversations": "2"}
    assert [row["conversation_id"] for row in app.table(0)] == [f"conversation-{number}" for number in range(49, 39, -1)]


@pytest.mark.parametrize(("page", "first"), [("99", "t-9"), ("0", "t-59"), ("-4", "t-59"), ("two", "t-59"), ("1e9", "t-59")])
def test_a_page_that_does_not_exist_is_the_nearest_one(open_app: Callable, many_file: Path, page: str, first: str) -> None:
    assert turn_ids(open_app(many_file).at("conversations", page=page))[0] == first


def test_another_filter_begins_its_list_anew(open_app: Callable, many_file: Path) -> None:
    app = open_app(many_file).at("conversations", page="3")
    app.page.selectbox("filter-conversation").select("conversation-7")
    app.again()
    assert app.page.query_params == {"conversation": "conversation-7"}
    assert turn_ids(app) == ["t-7"]
