"""The filters of all pages: each narrows what it says, stands in the address and goes along; times; what is not narrowed."""

from collections.abc import Callable
from pathlib import Path

import dashboard_scenes as scenes
import pytest
from on_page import traces
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


@pytest.mark.parametrize("page", ["overview", "conversations"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("model", "m1"), ("tenant", "t1"), ("run", "r1"), ("conversation", "one"), ("last", "15m"), ("last", "all")],
)
def test_filters_of_pages_on_turns(open_app: Callable, mixed_file: Path, page: str, name: str, value: str) -> None:
    app = open_app(mixed_file).at(page, **{name: value})
    new = {"15m": "3,200", "all": "4,800"}.get(value, "1,600")
    assert any(item.value.startswith(f"{new} of {new} token") for item in app.page.caption)


@pytest.mark.parametrize("name", ["model", "tenant", "run", "conversation"])
def test_a_filter_is_chosen(open_app: Callable, mixed_file: Path, name: str) -> None:
    app = open_app(mixed_file).at()
    value = {"model": "m2", "tenant": "t2", "run": "r2", "conversation": "two"}[name]
    app.page.selectbox(f"filter-{name}").select(value)
    app.again()
    assert app.page.query_params == {name: value}
    assert f"Only {name} {value}" in app.texts()


def test_times_are_chosen(open_app: Callable, mixed_file: Path) -> None:
    """From one time to another: the whole store first, then less; in the address they are UTC."""
    app = open_app(mixed_file).at()
    app.page.selectbox("filter-time").select("from ... to ...")
    app.again()
    assert app.page.query_params == {"since": "2026-09-21T14:13:21Z", "until": "2026-09-21T15:13:23Z"}
    assert "Only from 2026-09-21 14:13:21 · to 2026-09-21 15:13:23" in app.texts()
    app.page.query_params["until"] = "2026-09-21T14:30:00Z"
    assert any(item.value.startswith("1,600 of 1,600 tokens") for item in app.again().page.caption)
    app.page.selectbox("filter-time").select("15m")
    app.again()
    assert app.page.query_params == {"last": "15m"}
    app.page.selectbox("filter-time").select("auto")
    assert app.again().page.query_params == {}


@pytest.mark.parametrize(
    "times",
    [
        {"since": "yesterday"},
        {"since": "0001-01-01T00:00:00+05:00"},
        {"until": "9999-12-31T23:59:59-05:00"},
        {"since": "2026-09-21T15:00:00Z", "until": "2026-09-21T14:00:00Z"},
        {"until": "2999-01-01T00:00:00Z"},
    ],
)
def test_times_that_cannot_be_meant(open_app: Callable, mixed_file: Path, times: dict[str, str]) -> None:
    app = open_app(mixed_file).at(**times)
    assert "These times cannot be meant, and are left out." in [item.value for item in app.page.warning]
    assert any(item.value.startswith("4,800 of 4,800 tokens") for item in app.page.caption)


@pytest.mark.parametrize("page", ["slots", "cost", "health", "compare"])
def test_pages_on_what_is_shared_are_not_narrowed(open_app: Callable, mixed_file: Path, page: str) -> None:
    app = open_app(mixed_file).at(page, model="m1", tenant="t1", conversation="one")
    assert not any(text.startswith("Only") for text in app.texts())
    assert app.page.selectbox("filter-model").disabled


def test_a_range_after_the_last_turn_is_empty(open_app: Callable, mixed_file: Path) -> None:
    app = open_app(mixed_file).at(since="2026-09-22T00:00:00Z")
    assert [item.value for item in app.page.info] == ["No turn matches these filters."]
    assert not app.page.warning


def test_any_length_of_time(open_app: Callable, mixed_file: Path) -> None:
    app = open_app(mixed_file).at(last="5m")
    assert app.page.selectbox("filter-time").value == "5m"
    assert any(item.value.startswith("3,200 of 3,200 tokens") for item in app.page.caption)
    wrong = open_app(mixed_file).at(last="zzz")
    assert "This length of time cannot be meant, and is left out." in [item.value for item in wrong.page.warning]


def test_an_old_conversation_is_found_though_times_are_automatic(
    open_app: Callable, mixed_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlens.dashboard.filters._QUICK_TURNS", 1)
    app = open_app(mixed_file).at("conversations")
    assert app.page.selectbox("filter-time").options[0] == "automatic: the last hour"
    assert not any(text.startswith("Only") for text in app.texts())
    assert [row["turn_id"] for row in app.table(-1)] == ["y-1"]
    one = app.at("turn", turn="x-1")
    links = {item.proto.label: item.proto.query_string for item in one.page.get("page_link")}
    assert links["Its conversation, turn by turn"] == "conversation=one"
    assert [row["turn_id"] for row in app.at("conversations", conversation="one").table(-1)] == ["x-1"]


def test_a_conversation_that_comes_in_two_runs(open_app: Callable, tmp_path: Path) -> None:
    story = scenes.Story()
    for number in range(2):
        for run in ("A", "B"):
            story.turn(f"{run}{number}", "conv", 1_600 * (number + 1), run=run)
    app = open_app(scenes.file_store(tmp_path / "runs.duckdb", story.spans())).at("conversations", conversation="conv", run="A")
    strip = traces(app.charts()[1])
    assert [point[0] for point in strip["first token"]["customdata"]] == ["A0", "A1"]


def test_the_trend_is_of_one_run_and_of_two_turns(open_app: Callable, tmp_path: Path) -> None:
    story = scenes.Story()
    for name, run in (("a-1", "A"), ("a-2", "A"), ("b-1", "B")):
        story.turn(name, name, 1_600, run=run)
    file = scenes.file_store(tmp_path / "runs.duckdb", story.spans())

    def said(**address: str) -> tuple[set[str], str]:
        app = open_app(file).at(**address)
        (caption,) = [item.value for item in app.page.caption if "prompt token" in item.value]
        return {item.delta for item in app.page.metric}, caption.partition(".")[2]

    assert said() == ({""}, " Whether it gets worse is said of one run: choose one.")
    assert said(run="A") == ({"+0.0 points"}, " Below each share: the later half of the time against the earlier.")
    assert said(run="B") == ({""}, "")


def test_from_and_to_stay_as_they_are_until_others_are_chosen(open_app: Callable, agents_file: Path) -> None:
    """The boxes have whole minutes, an address has seconds: 14:13:25 to 14:13:33 UTC."""
    between = {"since": "2026-09-21T14:13:25Z", "until": "2026-09-21T14:13:33Z"}
    app = open_app(agents_file).at(**between)
    shown = [item.value for item in app.page.caption if "complete turn" in item.value]
    assert [str(app.page.datetime_input(f"filter-{name}").value) for name in between] == [
        "2026-09-21 14:13:00",
        "2026-09-21 14:14:00",
    ]
    app.again()
    assert app.page.query_params == between
    assert [item.value for item in app.page.caption if "complete turn" in item.value] == shown
    app.page.selectbox("filter-time").select("1h")
    assert app.again().page.query_params == {"last": "1h"}


def test_of_a_conversation_the_engine_starts_that_served_it_are_replayed(open_app: Callable, tmp_path: Path) -> None:
    stories = [scenes.Story(engine=engine, ids=RandomIdGenerator()) for engine in ("first", "second")]
    for number, story in enumerate(stories):
        story.now = 60.0 * number
        story.turn(f"{number}-1", f"c{number}", 1_600)
        story.turn(f"{number}-2", f"c{number}", 2_000, hit=1_600)
    app = open_app(scenes.file_store(tmp_path / "two.duckdb", [span for story in stories for span in story.spans()]))
    app.at("whatif", conversation="c0")
    assert "first/r0, 2 turns" in app.texts()
    assert {row["seen_tokens"] for row in app.table(0)} == {1_600}
    app.at("whatif", conversation="nobody")
    assert [item.value for item in app.page.info] == [
        "No engine start here has turns of this conversation that ended: there is nothing to replay."
    ]


def test_filters_go_along_from_page_to_page(open_app: Callable, mixed_file: Path) -> None:
    app = open_app(mixed_file).at(model="m1", last="all", order="slowest", page="2")
    links = {item.proto.label: item.proto.query_string for item in app.page.get("page_link")}
    assert [label for label in links if label != "All of health"] == [
        "Overview", "Conversations", "Turn", "Slots and memory", "What if", "Compare", "Cost", "SQL", "Health",
    ]  # fmt: skip
    assert links["Cost"] == "last=all&model=m1"
