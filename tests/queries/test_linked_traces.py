"""Real traffic without conversation ids: links against a plain comparison of block ids, and against the ids that were taken away."""

import json
from collections import Counter
from pathlib import Path

from memory_store import START_NS, MemoryStore
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from public_traces import AGENTIC, CONVERSATION, needs_traces

from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.replay import Replay, config_for, traffic_of
from turnlens.tracing.engines.reference.trace_files import read

pytestmark = needs_traces


def replayed(*paths: Path) -> MemoryStore:
    traffic = traffic_of(read(paths))
    config = config_for(traffic)
    exporter = InMemorySpanExporter()
    recorder = Recorder(
        **config.facts(),
        exporter=exporter,
        gauge_exporter=None,
        registry=CollectorRegistry(),
        wait_when_full=True,
        started_ns=START_NS,
    )
    Replay(traffic, config, recorder, started_ns=START_NS).run()
    assert recorder.flush(60)
    recorder.close()
    store = MemoryStore()
    store.add(exporter.get_finished_spans())
    return store


def test_a_chat_trace_is_linked_as_its_block_ids_say(tmp_path: Path) -> None:
    """The latest earlier request whose whole blocks all begin this one: the most blocks first. Whole blocks that others had
    before (the system prompt's) end nobody's prompt."""
    lines = CONVERSATION.read_text().splitlines()[:1_500]
    path = tmp_path / "chat.jsonl"
    path.write_text("\n".join(lines))
    expected: dict[str, str] = {}
    ends: dict[int, str] = {}  # an id stands for all that is before it, too
    known: set[int] = set()
    for number, row in enumerate(map(json.loads, lines), 1):
        ids: list[int] = row["hash_ids"]
        name = f"chat:{number}"
        found = next((ends[block] for block in reversed(ids) if block in ends), None)
        if found is not None:
            expected[name] = found
        if len(ids) >= 3 and row["input_length"] % 512 and ids[-2] not in known:
            ends[ids[-2]] = name
        ends[ids[-1]] = name
        known.update(ids)
    store = replayed(path)
    rows = store.rows("from linked_turns where previous_turn_id is not null")
    found_links = {row["turn_id"]: row["previous_turn_id"] for row in rows if row["linked_by"] == "prefix"}
    assert len(expected) > 100
    assert found_links == expected
    # Two more share most of an earlier prompt: 45 of its 48 blocks, 10 of 12.
    blocks = {f"chat:{number}": json.loads(line)["hash_ids"] for number, line in enumerate(lines, 1)}
    shared = sorted(
        [sum(a == b for a, b in zip(blocks[row["turn_id"]], blocks[row["previous_turn_id"]], strict=False)), len(before)]
        for row in rows
        if row["linked_by"] == "shared_prefix" and (before := blocks[row["previous_turn_id"]])
    )
    assert shared == [[10, 12], [45, 48]]
    store.close()


def test_agents_are_found_again_without_their_ids() -> None:
    """Four agents: no two are joined, and each is found whole but for a single request and one that begins anew."""
    store = replayed(*(AGENTIC / f"trace_{number}.json" for number in ("0023", "0118", "0468", "0642")))
    real = {row["turn_id"]: row["conversation_id"] for row in store.rows("select turn_id, conversation_id from turns")}
    store.change("update spans set conversation_id = null")
    found: dict[str, Counter[str]] = {}
    for row in store.rows("select turn_id, conversation_id from linked_turns"):
        found.setdefault(row["conversation_id"], Counter())[real[row["turn_id"]]] += 1
    assert sorted((name, count) for each in found.values() for name, count in each.items()) == [
        ("trace_0023", 52),
        ("trace_0118", 1),
        ("trace_0118", 32),
        ("trace_0468", 32),
        ("trace_0642", 6),
        ("trace_0642", 69),
    ]
    assert all(len(each) == 1 for each in found.values())
    store.close()
