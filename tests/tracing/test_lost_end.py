"""A turn whose end finds no room in the buffer ends all the same, and is incomplete."""

import threading

import pytest
from memory_store import Scene

from turnlens.tracing import buffer


def test_the_end_itself_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLENS_BUFFER", "16")
    monkeypatch.setattr(buffer, "_HEADROOM", 0)
    scene = Scene()
    scene.recorder._buffer.wait_when_full = False
    gate = threading.Event()
    turn = scene.recorder.turn("q", prompt_tokens=100, at_ns=scene.at(0))
    turn.admitted(0, at_ns=scene.at(0))
    assert scene.recorder.flush(5)
    apply = scene.recorder._thread._drain.apply
    scene.recorder._thread._drain.apply = lambda records: (gate.wait(10), apply(records))[1]  # type: ignore[method-assign]
    for position in range(100):
        turn.computed(position, position + 1, at_ns=scene.at(1))
    turn.finished("stop", at_ns=scene.at(2))
    assert turn.finish_record is not None
    gate.set()
    found = turn.attribution(5)
    assert found is not None
    assert found.reasons[0] == "records_dropped"
    (row,) = scene.store().rows("select status, complete, verdict, end_ns - start_ns as took from turns")
    assert row == {"status": "stop", "complete": False, "verdict": "incomplete", "took": 2_000_000_000}
