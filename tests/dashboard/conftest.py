"""The dashboard's tests: stores made of scenes, and the app run on them by Streamlit's AppTest."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

HERE = Path(__file__).parent
APP = HERE.parents[1] / "dashboard" / "app.py"
sys.path.insert(0, str(HERE / "kit"))
pytest.register_assert_rewrite("chromium")

import dashboard_scenes as scenes  # noqa: E402 the kit is importable from here on

# A first run imports and plans a lot, on two cores that others use too.
SECONDS = 60


class Shown:
    """The app as a person finds it at an address: ``page`` is the AppTest."""

    def __init__(self, page: AppTest) -> None:
        self.page = page

    def at(self, page: str | None = None, /, **address: str) -> "Shown":
        """Go to a page (``turn``; None for the first) with this address."""
        if page is not None:
            self.page.run()
            self.page.switch_page(f"pages/{page}.py")
        self.page.query_params.clear()
        self.page.query_params.update(address)
        return self.again()

    def again(self) -> "Shown":
        """Run the page once more. An exception on the page fails the test."""
        self.page.run()
        assert not self.page.exception, [item.value for item in self.page.exception]
        return self

    def texts(self) -> list[str]:
        """Everything that is shown as plain text."""
        return [str(item.value) for item in self.page.text]

    def table(self, number: int) -> list[dict[str, Any]]:
        """The rows of a table of the page."""
        frame = self.page.dataframe[number].value.astype(object)
        return frame.where(frame.notna(), None).to_dict("records")

    def figures(self) -> dict[str, str]:
        """The figures of the page by name."""
        return {item.label: str(item.value) for item in self.page.metric}

    def charts(self) -> list[dict[str, Any]]:
        """The Plotly figures of the page."""
        return [json.loads(item.proto.spec) for item in self.page.get("plotly_chart")]


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | str], Shown]:
    """Open the dashboard of a store."""

    def opened(store: Path | str) -> Shown:
        monkeypatch.setenv("TURNLENS_STORE", str(store))
        monkeypatch.setattr(sys, "argv", ["app.py"])
        return Shown(AppTest.from_file(str(APP), default_timeout=SECONDS))

    return opened


@pytest.fixture(scope="session")
def agents_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the scene ``agents``; tests only read it."""
    return scenes.file_store(tmp_path_factory.mktemp("agents") / "agents.duckdb", scenes.agents())


@pytest.fixture(scope="session")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the scene ``hostile``; tests only read it."""
    return scenes.file_store(tmp_path_factory.mktemp("hostile") / "hostile.duckdb", scenes.hostile())


@pytest.fixture(scope="session")
def mixed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two turns that differ in everything that can be chosen, an hour apart."""
    story = scenes.Story()
    story.turn("x-1", "one", 1_600, model="m1", tenant="t1", run="r1")
    story.now += 3_600
    story.turn("y-1", "two", 3_200, model="m2", tenant="t2", run="r2")
    return scenes.file_store(tmp_path_factory.mktemp("mixed") / "mixed.duckdb", story.spans())
