"""What other replicas held is found key by key as spans come; the views, over all spans, say the same."""

import random
from typing import Any

import pytest
from memory_store import CountingIds, MemoryStore, Scene
from scenes import chain

from turnlens.queries import folding

Row = dict[str, Any]


def traffic(seed: int, whole: bool) -> list[Scene]:
    """Three replicas take turns of four texts at random, publish blocks of them or snapshots, and lose some again."""
    chance = random.Random(seed)
    scenes = [Scene(replica=f"r{number}", ids=CountingIds(number << 20)) for number in range(3)]
    seen: list[set[str]] = [set() for _ in scenes]
    for number in range(40):
        at, scene = 5.0 * number, chance.choice(scenes)
        text = chance.choice("abcd")
        keys = chain(text, chance.randint(1, 6))
        here = seen[scenes.index(scene)]
        hit = 16 * next((place for place, key in enumerate(keys) if key not in here), len(keys)) if chance.random() < 0.7 else 0
        published = keys[chance.choice((0, 0, 1, 2)) :]
        if not whole:
            scene.serve(f"t-{number}", None, 16 * len(keys) + 5, keys, at, hit=hit, publish=published)
            here |= set(published)
        else:
            turn = scene.serve(f"t-{number}", None, 16 * len(keys) + 5, keys, at, hit=hit)
            with scene.recorder.publish(keys[-1], tokens=16 * len(keys), turn=turn, at_ns=scene.at(at + 1)) as publish:
                publish.end("committed", at_ns=scene.at(at + 1.5))
            here.add(keys[-1])
        if here and chance.random() < 0.4:
            gone = sorted(here)[chance.randrange(len(here)) :]
            scene.recorder.evicted(gone, 16, reason="memory", at_ns=scene.at(at + 3))
            here -= set(gone)
    return scenes


def causes(store: MemoryStore, of: str) -> list[Row]:
    names = ", ".join(row["column_name"] for row in store.rows("describe _told_causes"))
    return store.rows(f"select {names} from {of} order by all")


@pytest.mark.parametrize("whole", [False, True], ids=["blocks", "snapshots"])
def test_told_in_any_order_a_few_at_a_time(whole: bool) -> None:
    held = 0
    for seed in range(2):
        spans = [span for scene in traffic(seed, whole) for span in scene.spans()]
        random.Random(seed).shuffle(spans)
        store = MemoryStore()
        for start in range(0, len(spans), 50):
            store.add(spans[start : start + 50])
            while (folded := folding.fold(store.connection, 20)).upto < folded.last:
                pass
        told = causes(store, "_told_causes")
        assert causes(store, "_cause_facts") == told
        held += sum(row["cause"] == "placement.other_replica" and row["end_token"] - row["start_token"] > 16 for row in told)
    assert held > 3  # where more than the first block was there
