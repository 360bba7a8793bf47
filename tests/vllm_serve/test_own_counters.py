"""A real vLLM scheduler's own counters against the events: each of its five known differences is called by its name.

Run by ``make vllm``, which names the environment with the real vLLM in TURNLENS_VLLM. The scheduler runs there; the store is here.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from memory_store import START_NS, MemoryStore
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from vllm_counters import add_samples

from turnlens.collectors import arriving
from turnlens.collectors.decode import decode_traces

ROOT = Path(__file__).parents[2]
KIT = ROOT / "tests" / "vllm" / "kit"
VLLM = os.environ.get("TURNLENS_VLLM")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not VLLM, reason="TURNLENS_VLLM does not name an environment with vLLM: use `make vllm`"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    assert VLLM is not None
    folder = tmp_path_factory.mktemp("counters")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_CI_ENV": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
        "DO_NOT_TRACK": "1",
    }
    command = [f"{VLLM}/python", str(KIT / "own_counters.py"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    store = MemoryStore()
    for path in folder.glob("*.otlp"):
        request = ExportTraceServiceRequest()
        request.ParseFromString(path.read_bytes())
        batch = decode_traces(request, 0)
        arriving.insert_resources(store.connection, [batch], set())
        arriving.insert_spans(store.connection, [batch])
        told = json.loads(path.with_suffix(".json").read_text())
        began, ended = ((told[name] - START_NS) / 1e9 for name in ("began_ns", "ended_ns"))
        # The scene's seconds are a double, too coarse for nanoseconds: a moment before and one after.
        samples = [(began - 0.01, dict.fromkeys(told["counters"], 0)), (ended + 0.01, told["counters"])]
        add_samples(store, samples, replica=path.stem)
    return store


def test_every_difference_is_called_by_its_name(store: MemoryStore) -> None:
    rows = store.rows(
        "select replica, explained_by, list(distinct abs(difference) order by abs(difference)) as differences "
        "from agreement(null, null, null, null, 86400) where difference <> 0 group by all order by all"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("asynchronous", "failed_asynchronous_restore", [320]),
        ("cancelled", "cancelled_restore", [288]),
        ("preempted", "preempted_in_prefill", [135]),
        ("synchronous", "failed_synchronous_restore", [192]),
        ("tail", "full_hit_with_external_tail", [1]),
    ]


def test_all_the_other_counters_agree(store: MemoryStore) -> None:
    rows = store.rows("select count(*) as sums, sum(unsure_turns) as unsure from agreement(null, null, null, null, 86400)")
    assert rows == [{"sums": 43, "unsure": 0}]
