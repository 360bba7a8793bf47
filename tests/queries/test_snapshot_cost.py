"""What a snapshot costs: the reference engine's own slopes, exact lines by hand, and intervals against plain normal equations."""

from typing import Any

import numpy as np
import pytest
from memory_store import MemoryStore, Scene
from scenario_store import play

from turnlens.tracing.engines.reference.scenarios.flare import COSTS

ANY = "null, null, null, null"
COLUMNS = "reuse, seconds_of, per, turns, fitted, seconds_each, tokens_of, seconds_per_token, seconds_at_none"


def cold(scene: Scene, number: int, messages: int, tokens: int, seconds: float, run: str | None = None) -> None:
    """A turn of which nothing is reused, first token ``seconds`` after its arrival and 0.25 s in the queue."""
    keys = [f"{run}{number}.{at}" for at in range(messages)]
    start = 100.0 * number
    turn = scene.recorder.turn(
        f"{run}{number}",
        prompt_tokens=tokens,
        prefix=keys,
        prefix_at=[*range(1, messages), tokens],
        message_count=messages,
        run=run,
        at_ns=scene.at(start),
    )
    turn.admitted(0, at_ns=scene.at(start + 0.25))
    turn.computed(0, tokens, at_ns=scene.at(start + 0.25 + seconds))
    for key, end in zip(keys, [*range(1, messages), tokens], strict=True):
        scene.recorder.publish(key, end, turn=turn, at_ns=scene.at(start + 0.5)).end("committed", at_ns=scene.at(start + 0.5))
    turn.first_token(at_ns=scene.at(start + 0.25 + seconds))
    turn.finished(at_ns=scene.at(start + 0.25 + seconds), output_tokens=1)


def fits(store: MemoryStore, run: str | None = None) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = store.rows("from snapshot_cost(null, ?, null, null)", [run])
    return {(row["reuse"], row["seconds_of"], row["per"]): row for row in rows}


def test_the_messages_scenario_has_its_own_slopes() -> None:
    """Within 10 % is asked for; they are exact, since that engine's time has no noise."""
    _, store = play("messages")
    found = fits(store)
    publish, frontend, look_up = COSTS.publish_seconds, COSTS.frontend_message_seconds, COSTS.lookup_snapshot_seconds
    assert (publish, frontend, look_up) == (0.155, 0.0025, 0.003)
    assert {key: (row["turns"], row["fitted"], round(row["seconds_each"], 7)) for key, row in found.items()} == {
        ("cold", "served", "message"): (4, "things", 0.1575),
        ("cold", "frontend", "message"): (4, "things", frontend),
        ("cold", "engine", "message"): (4, "things", publish),
        ("cold", "engine", "publish"): (4, "things", publish),
        ("warm", "served", "message"): (4, "things", 0.0055),
        ("warm", "frontend", "message"): (4, "things", frontend),
        ("warm", "engine", "message"): (4, "things", look_up),
    }
    for row in found.values():
        assert row["seconds_each_low"] <= row["seconds_each"] + 1e-12
        assert row["seconds_each_high"] - row["seconds_each_low"] < 1e-6
    assert found["cold", "served", "message"]["seconds_at_none"] == pytest.approx(0.36 + 7 * 0.002 + 14_000 / 2_700)
    store.close()


def test_what_varies_takes_part_in_the_fit() -> None:
    """Seconds are 0.5 + 0.2 a message + 0.001 a token."""
    scene = Scene(unit_tokens=1)
    cases = {
        "both": ((1, 100), (2, 400), (5, 200), (9, 1_000)),
        "things": ((1, 100), (2, 100), (3, 100)),
        "tokens": ((2, 100), (2, 200), (2, 400)),
        "inseparable": ((1, 100), (2, 200), (3, 300)),
        "nothing": ((1, 100), (1, 100)),
    }
    for run, points in cases.items():
        for number, (messages, tokens) in enumerate(points):
            cold(scene, number, messages, tokens, 0.5 + 0.2 * messages + 0.001 * tokens, run)
    store = scene.store()

    def lines(run: str) -> list[Any]:
        row = fits(store, run)["cold", "served", "message"]
        assert row["fitted"] == run
        found = (row["turns"], row["seconds_each"], row["seconds_per_token"], row["seconds_at_none"])
        return [None if value is None else round(value, 9) for value in found]

    assert lines("both") == [4, 0.2, 0.001, 0.5]
    assert lines("things") == [3, 0.2, None, 0.6]
    assert lines("tokens") == [3, None, 0.001, 0.9]
    assert lines("inseparable") == [3, None, None, None]
    assert lines("nothing") == [2, None, None, 0.8]


@pytest.mark.parametrize(("turns", "t"), [(5, 4.303), (9, 2.447), (23, 2.0860), (43, 2.0211)])
def test_intervals_are_those_of_the_normal_equations(turns: int, t: float) -> None:
    """Against numpy; ``t`` is Student's at 97.5 % with as many degrees of freedom as turns less three, from a printed table."""
    draw = np.random.default_rng(turns)
    scene = Scene(unit_tokens=1)
    design, seconds = np.ones((turns, 3)), np.zeros(turns)
    for number in range(turns):
        messages, tokens = int(draw.integers(1, 20)), int(draw.integers(100, 9_000))
        took = round(1 + 0.1 * messages + 0.0004 * tokens + float(draw.normal(0, 0.3)) ** 2, 6)
        cold(scene, number, messages, tokens, took)
        design[number, 1:], seconds[number] = (messages, tokens), took
    row = fits(scene.store())["cold", "served", "message"]
    solved = np.linalg.solve(design.T @ design, design.T @ seconds)
    left = seconds - design @ solved
    error = float(np.sqrt(left @ left / (turns - 3)))
    spread = t * error * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    assert row["error_seconds"] == pytest.approx(error)
    assert [row["seconds_at_none"], row["seconds_each"], row["seconds_per_token"]] == pytest.approx(list(solved))
    for name, at in (("seconds_each", 1), ("seconds_per_token", 2)):
        ends = [row[f"{name}_low"], row[f"{name}_high"]]
        assert ends == pytest.approx([solved[at] - spread[at], solved[at] + spread[at]], rel=1e-3, abs=2e-3 * spread[at])


def test_restores_and_turns_that_grow() -> None:
    """Restores take 0.1 s + 1 ms a token. What was seen is reused, 16 to 64 new tokens are computed at 10 ms each."""
    scene = Scene()
    for number, (tokens, new) in enumerate(((32, 16), (64, 64), (96, 32))):
        keys = [f"{number}.{at}" for at in range((tokens + new) // 16)]
        start = 100.0 * number
        scene.serve(f"p{number}", None, tokens, keys[: tokens // 16], start)
        turn = scene.recorder.turn(
            f"q{number}", prompt_tokens=tokens + new, prefix=keys, prefix_at=16, at_ns=scene.at(start + 50)
        )
        turn.admitted(0, offered_tokens=tokens, tier="disk", at_ns=scene.at(start + 50))
        turn.restore_started(tokens, tier="disk", key=keys[0], at_ns=scene.at(start + 50))
        loaded = start + 50.1 + 0.001 * tokens
        turn.restore_finalized(valid_prefix_tokens=tokens, at_ns=scene.at(loaded))
        turn.computed(tokens, tokens + new, at_ns=scene.at(loaded + 0.01 * new))
        turn.first_token(at_ns=scene.at(loaded + 0.01 * new))
        turn.finished(at_ns=scene.at(start + 60), output_tokens=1)
    found = fits(scene.store())
    restore = found["restored", "restore", "restore"]
    assert (restore["turns"], restore["fitted"], restore["tokens_of"]) == (3, "tokens", "restored")
    assert (restore["seconds_per_token"], restore["seconds_at_none"]) == pytest.approx((0.001, 0.1))
    grown = found["grown", "engine", "publish"]
    assert (grown["turns"], grown["fitted"], grown["tokens_of"]) == (3, "tokens", "computed")


def test_decoding_beside_a_publish() -> None:
    """a and b decode 10 tokens a second, c and d, beside d's long publish, 5. Publishes that take no time are beside nobody."""
    scene = Scene()
    for name, start, first, seconds in (("a", 0, 1, 1.9), ("b", 10, 12, 0.9), ("c", 20, 21, 3.8), ("d", 20, 22, 1.8)):
        turn = scene.recorder.turn(name, prompt_tokens=16, prefix=[name], prefix_at=16, at_ns=scene.at(start))
        turn.admitted(0, at_ns=scene.at(start))
        turn.computed(0, 16, at_ns=scene.at(first))
        turn.first_token(at_ns=scene.at(first))
        scene.recorder.published([name], 16, turn=turn, at_ns=scene.at(first + 0.5))
        if name == "d":
            scene.recorder.publish("d+", 32, turn=turn, at_ns=scene.at(22.5)).end("committed", at_ns=scene.at(23))
        turn.finished(at_ns=scene.at(first + seconds), output_tokens=round(seconds * (5 if name in "cd" else 10)) + 1)
    rows = scene.store().rows(f"select * exclude (engine) from decode_beside_publishes({ANY})")
    assert [[round(value, 6) for value in row.values()] for row in rows] == [
        [False, 2, 28, 2.8, 10.0, 10.0, 1.5, 2.9],
        [True, 2, 28, 5.6, 5.0, 5.0, 1.5, 4.3],
    ]
