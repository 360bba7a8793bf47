"""docs/importing.md and docs/instrument.md, run."""

import re
from pathlib import Path
from typing import Any

import click
import pytest

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.dashboard.commands import turnlens
from turnlens.queries import connect
from turnlens.queries.explain import explain

ROOT = Path(__file__).parents[2]
IMPORTING = (ROOT / "docs" / "importing.md").read_text()
INSTRUMENT = (ROOT / "docs" / "instrument.md").read_text()


def test_the_engine_of_the_guide_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three conversations take turns in two slots: the third takes the slot of the first, which is told who it was."""
    (code,) = re.findall(r"```python\n(.*?)```", INSTRUMENT, re.DOTALL)
    own = [line for line in code.splitlines() if "recorder" in line or "turn." in line]
    assert len(own) <= 30
    with Collector(Settings(store=tmp_path / "turns.duckdb", http_port=0, grpc_port=0)) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http_url)
        scope: dict[str, Any] = {}
        exec(code, scope)
        first, second, third = (list(range(start, start + 100)) for start in (0, 1000, 2000))
        assert scope["serve"]("a-1", "a", first) == 0
        assert scope["serve"]("b-1", "b", second) == 0
        assert scope["serve"]("a-2", "a", [*first, *range(500, 540)]) == 96
        assert scope["serve"]("c-1", "c", third) == 0
        assert scope["serve"]("b-2", "b", [*second, *range(700, 720)]) == 0
        assert scope["recorder"].flush(30)
        scope["recorder"].close()
        store = connect(collector.http_url)
        rows = store.query(
            "select turn_id, hit_tokens, recomputed_tokens, new_tokens, main_cause, complete from turns order by start_ns"
        )
        assert [tuple(row.values()) for row in rows.to_pylist()] == [
            ("a-1", 0, 0, 100, "first_seen.new_conversation", True),
            ("b-1", 0, 0, 100, "first_seen.new_conversation", True),
            ("a-2", 96, 0, 44, "provided.turn", True),
            ("c-1", 0, 0, 100, "first_seen.new_conversation", True),
            ("b-2", 0, 96, 24, "evicted.slots", True),
        ]
        evicted = explain(store, "b-2")["spans"][0]
        assert (evicted["cause"], evicted["evicted_by_turn"]) == ("evicted.slots", "c-1")
        store.close()


def test_every_kind_is_on_the_page() -> None:
    group = turnlens.commands["import"]
    assert isinstance(group, click.Group)
    assert sorted(re.findall(r"^\| `([a-z]+)` \|", IMPORTING, re.MULTILINE)) == sorted(group.commands)
