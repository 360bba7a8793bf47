"""Stores that are empty, broken, missing, foreign, busy, replaced, or gone for a while: each page says what to do next."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dashboard_scenes as scenes
import duckdb
import pytest

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings


def errors(app) -> list[str]:
    return [item.value for item in app.page.error]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_an_empty_store_says_how_turns_get_into_it(open_app: Callable, tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "empty.duckdb", [])
    app = open_app(file).at()
    assert [item.value for item in app.page.info] == ["No turn has arrived in this store yet."]
    assert [item.value for item in app.page.code] == [
        f"turnlens serve --store {file}\nOTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 TURNLENS_TRACE=1 vllm serve MODEL",
        "turnlens demo\nturnlens dashboard --store turnlens-demo.duckdb",
    ]
    unknown = app.at("turn", turn="a-1")
    assert unknown.texts()[0] == f"There is no turn 'a-1' in {file}."
    assert [item.value for item in unknown.page.info] == ["No turn has arrived in this store yet."]


def test_only_broken_turns(open_app: Callable, tmp_path: Path) -> None:
    app = open_app(scenes.file_store(tmp_path / "broken.duckdb", scenes.only_broken())).at("conversations")
    assert [item.value for item in app.page.warning] == [
        "None of these turns is complete, so there is nothing to add up. The list below says why."
    ]
    assert app.figures() == {}
    assert [(row["turn_id"], row["verdict"], row["incomplete_because"]) for row in app.table(-1)] == [
        ("c-2", "incomplete", "positions_unobserved"),
        ("c-1", "incomplete", "positions_unobserved"),
    ]
    assert app.at("turn", turn="c-2").texts()[0] == "c-2"


@pytest.mark.parametrize("page", [None, "turn"])
def test_a_missing_store_is_named_and_found_when_it_appears(open_app: Callable, tmp_path: Path, page: str | None) -> None:
    file = tmp_path / "later.duckdb"
    app = open_app(file).at(page, turn="a-2")
    assert errors(app) == ["The store cannot be read now."]
    assert any(f"There is no store at {file}. Run `turnlens demo --store {file}`" in text for text in app.texts())
    scenes.file_store(file, scenes.agents())
    app.page.button("try-again").click()
    app.again()
    assert errors(app) == []
    assert "agent-a" in str(app.texts()) or app.figures()["hit"] == "50.8 %"


def test_a_replaced_file_is_what_the_next_look_shows(open_app: Callable, tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.only_broken())
    app = open_app(file).at("conversations")
    assert [row["turn_id"] for row in app.table(-1)] == ["c-2", "c-1"]
    os.replace(scenes.file_store(tmp_path / "other.duckdb", scenes.agents()), file)
    assert app.again().figures()["hit"] == "50.8 %"


def test_a_file_of_something_else(open_app: Callable, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("create table invoices (n int)")
    app = open_app(tmp_path / "other.duckdb").at()
    assert errors(app) == ["The store cannot be read now."]
    assert "was not written by Turnlens (it has tables invoices)" in app.texts()[0]
    (tmp_path / "text.duckdb").write_text("no database at all")
    assert errors(open_app(tmp_path / "text.duckdb").at()) == ["The store cannot be read now."]


def test_a_store_that_lacks_what_a_page_asks_for(open_app: Callable, tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "older.duckdb", scenes.agents())
    with duckdb.connect(str(file)) as connection:
        connection.execute("drop macro table trend")
    app = open_app(file).at()
    assert errors(app) == ["The store did not answer this page's question."]
    assert any("trend" in text for text in app.texts())
    assert any("start `turnlens serve` on it once" in item.value for item in app.page.caption)


def test_looking_does_not_keep_a_collector_from_starting(open_app: Callable, tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    app = open_app(file).at()
    assert app.figures()["hit"] == "50.8 %"
    # Another process opens the file for writing while the dashboard's process lives on, its page shown.
    write = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('create table mine (n int)')"
    subprocess.run([sys.executable, "-c", write, str(file)], check=True, timeout=60)


def test_a_collector_that_goes_away_and_comes_back(open_app: Callable, tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    settings = Settings(store=file, http_port=free_port(), grpc_port=0)
    with Collector(settings) as collector:
        url = collector.http_url
        app = open_app(url).at()
        assert app.figures()["hit"] == "50.8 %"
        assert app.at("turn", turn="a-2").texts()[0] == "a-2"
    gone = app.again()
    assert errors(gone) == ["The store cannot be read now."]
    assert any(text.startswith(f"No collector answers at {url}") for text in gone.texts())
    with Collector(settings):
        gone.page.button("try-again").click()
        assert gone.again().texts()[0] == "a-2"


def test_a_store_named_by_its_path_is_asked_through_its_collector(open_app: Callable, tmp_path: Path) -> None:
    file = scenes.file_store(tmp_path / "store.duckdb", scenes.agents())
    with Collector(Settings(store=file, http_port=0, grpc_port=0)) as collector:
        app = open_app(file).at()
        assert app.figures()["hit"] == "50.8 %"
        assert app.texts()[-2] == collector.http_url
    assert app.again().texts()[-2] == str(file)


def test_the_store_named_on_the_command_line_comes_first(
    open_app: Callable, agents_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app("/nowhere/store.duckdb")
    monkeypatch.setattr(sys, "argv", ["app.py", "--store", str(agents_file), "--else"])
    assert app.at().texts()[-2] == str(agents_file)
