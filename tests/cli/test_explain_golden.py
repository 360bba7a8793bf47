"""``turnlens explain`` for a turn of each cause, as a person reads it. TURNLENS_GOLDEN=write writes the files anew."""

import json
import os
from pathlib import Path

import pytest
from scenes import SCENES, store_of

from turnlens.dashboard import output
from turnlens.dashboard.explain_text import as_json, render
from turnlens.queries.explain import explain

GOLDEN = Path(__file__).parent / "golden"


def same(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("TURNLENS_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("scene", SCENES)
def test_text(scene: str) -> None:
    store, turn = store_of(scene)
    same(f"{scene}.txt", render(explain(store, turn)))


def test_json_is_the_same_as_data() -> None:
    store, turn = store_of("evicted_for_slots")
    explained = as_json(explain(store, turn))
    explained["turn"].pop("resource_id")  # a digest of the process's own id
    same("evicted_for_slots.json", json.dumps(explained, indent=2, default=output.plain) + "\n")


def test_every_golden_file_is_used() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(SCENES)
