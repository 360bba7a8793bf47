"""What engines say is shown as it is: never as HTML, Markdown, LaTeX, a directive or Plotly's own markup."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dashboard_scenes as scenes
import pytest

from turnlens.dashboard.charts import parts

# Elements in which Streamlit reads Markdown or HTML somewhere; everything in them must be our own.
READ = ["markdown", "caption", "title", "header", "subheader", "error", "warning", "info", "success", "metric", "button"]
READ += [
    "download_button",
    "page_link",
    "expander",
    "selectbox",
    "multiselect",
    "text_area",
    "toggle",
    "text_input",
    "pagination",
    "button_group",
    "html",
    "latex",
]


def read_texts(page: Any) -> Iterator[str]:
    """The texts of a page that Streamlit reads as Markdown or HTML."""
    for kind in READ:
        for element in page.get(kind):
            proto = element.proto
            for field in ("body", "label", "help", "placeholder"):
                value = getattr(proto, field, "")
                if isinstance(value, str):
                    yield f"{kind}.{field}: {value}"


def assert_nothing_is_read(page: Any) -> None:
    found = [text for text in read_texts(page) for piece in scenes.HOSTILE if piece in text]
    assert found == []
    for chart in page.get("plotly_chart"):
        spec = json.loads(chart.proto.spec)
        for text in strings(spec):
            bare = text.replace("<br>", "").removesuffix("<extra></extra>")
            assert "<" not in bare, text
        for trace in spec["data"]:
            assert trace.get("hoverinfo") == "skip" or trace["hovertemplate"] == "%{customdata[1]}<extra></extra>"
        assert json.loads(chart.proto.config)["typesetMath"] is False


def strings(value: Any) -> Iterator[str]:
    """Every text in a figure but the ids that are only sent back on a click."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from strings(_said(inner) if name == "customdata" else inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def _said(customdata: list[Any]) -> list[Any]:
    """The hovers of points; a matrix has rows of them."""
    return [_said(point) if isinstance(point[0], list) else point[1] for point in customdata]


PAGES = ["overview", "conversations", "slots", "whatif", "compare", "cost", "sql", "health"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page(open_app: Callable, hostile_file: Path, page: str) -> None:
    app = open_app(hostile_file).at(page)
    assert_nothing_is_read(app.page)
    assert app.page.dataframe or app.charts()


@pytest.mark.parametrize("text", scenes.HOSTILE)
@pytest.mark.parametrize("page", PAGES)
def test_every_filter_of_every_page(open_app: Callable, hostile_file: Path, page: str, text: str) -> None:
    """As somebody may send an address."""
    names = (
        "engine",
        "replica",
        "model",
        "run",
        "tenant",
        "conversation",
        "verdict",
        "last",
        "since",
        "until",
        "order",
        "axis",
        "start",
        "object",
        "sql",
        "by",
        "a",
        "b",
    )
    app = open_app(hostile_file).at(page, **dict.fromkeys(names, text))
    assert_nothing_is_read(app.page)


def test_the_list(open_app: Callable, hostile_file: Path) -> None:
    app = open_app(hostile_file).at("conversations")
    assert_nothing_is_read(app.page)
    rows = app.table(1)
    assert set(scenes.HOSTILE) <= {row["turn_id"] for row in rows}
    assert {row["engine"] for row in rows} == {scenes.HOSTILE[0]}


@pytest.mark.parametrize("text", scenes.HOSTILE)
def test_a_conversation_and_its_turns(open_app: Callable, hostile_file: Path, text: str) -> None:
    app = open_app(hostile_file).at("conversations", conversation=text)
    assert_nothing_is_read(app.page)
    assert f"Only conversation {text}" in app.texts()
    assert {row["conversation_id"] for row in app.table(0)} == {text}
    turn = app.at("turn", turn=f"{text} again")
    assert_nothing_is_read(turn.page)
    assert turn.texts()[0] == f"{text} again"
    assert f"conversation {text} · engine <b>bold</b> · replica $x^2$" in turn.texts()[1]


def test_an_unknown_id_is_only_repeated(open_app: Callable, hostile_file: Path) -> None:
    app = open_app(hostile_file).at("turn", turn="<b>who</b> [is](javascript:1) $this$")
    assert_nothing_is_read(app.page)
    assert "<b>who</b> [is](javascript:1) $this$" in app.texts()[0]


def test_plotly_shows_text_as_it_is() -> None:
    assert parts.plain("<b>x</b> & <a href='javascript:1'>") == "&lt;b&gt;x&lt;/b&gt; &amp; &lt;a href='javascript:1'&gt;"
    assert parts.plain(None) == ""
