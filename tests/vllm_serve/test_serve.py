"""``vllm serve``, switched on by environment variables alone, traced over OTLP into a collector and explained by the commands.

Run by ``make vllm``, which names the environment with the real vLLM in TURNLENS_VLLM. Two cores serve a random two-layer model.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.dashboard.commands import turnlens
from turnlens.queries import connect
from turnlens.queries.store import Store
from turnlens.queries.whatif import whatif

KIT = Path(__file__).parents[1] / "vllm" / "kit"
VLLM = os.environ.get("TURNLENS_VLLM")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not VLLM, reason="TURNLENS_VLLM does not name an environment with vLLM: use `make vllm`"),
]
BLOCK = 32


class Server:
    """A running ``vllm serve`` and what it answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Any] = {}

    def ask(self, request_id: str, prompt: str, session: str, **more: Any) -> dict[str, Any]:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True, **more}
        headers = {"X-Request-Id": request_id, "X-Session-ID": session}
        answer = requests.post(f"{self.url}/v1/completions", json=body, headers=headers, timeout=120)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        self.answers[request_id] = found
        return found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    path = tmp_path_factory.mktemp("serve") / "turns.duckdb"
    with Collector(Settings(store=path, http_port=0, grpc_port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def server(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert VLLM is not None
    folder = tmp_path_factory.mktemp("vllm")
    model = folder / "tiny"
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_CI_ENV": "1",
        "OMP_NUM_THREADS": "1",
        "DO_NOT_TRACK": "1",
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    # vllm-cpu is a distribution of another name; the vllm command asks for its version under the usual one.
    named = folder / "named" / "vllm-0.32.0+cpu.dist-info"
    named.mkdir(parents=True)
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    environment = (
        inherited
        | quiet
        | {
            "PYTHONPATH": f"{named.parent}:{KIT}",
            "PATH": f"{VLLM}:{os.environ['PATH']}",
            "TURNLENS_TRACE": "1",
            "TURNLENS_ENGINE": "tiny-vllm",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http_url,
        }
    )
    subprocess.run([f"{VLLM}/python", str(KIT / "tiny_model.py"), str(model)], env=environment, check=True, capture_output=True)
    port = free_port()
    transfer = {
        "kv_connector": "FlakyOffloadingConnector",
        "kv_connector_module_path": "cpu_offload",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "spec_name": "TorchOffloadSpec",
            "spec_module_path": "cpu_offload",
            "cpu_bytes_to_use": 4_194_304,
        },
    }
    command = [f"{VLLM}/vllm", "serve", str(model), "--served-model-name", "tiny", "--port", str(port), "--host", "127.0.0.1"]
    command += ["--block-size", str(BLOCK), "--num-gpu-blocks-override", "33", "--enforce-eager", "--dtype", "float32"]
    command += ["--max-model-len", "1024", "--max-num-seqs", "8", "--max-num-batched-tokens", "256"]
    command += [
        "--kv-cache-memory-bytes",
        "67108864",
        "--enable-prompt-tokens-details",
        "--kv-transfer-config",
        json.dumps(transfer),
    ]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=folder)
        try:
            deadline = time.monotonic() + 240
            url = f"http://127.0.0.1:{port}"
            while True:
                assert process.poll() is None, log.read_text()[-4000:]
                assert time.monotonic() < deadline, log.read_text()[-4000:]
                try:
                    if requests.get(f"{url}/health", timeout=2).ok:
                        break
                except requests.RequestException:
                    time.sleep(0.5)
            yield Server(url)
        finally:
            process.terminate()
            process.wait(60)


def text(seed: int, length: int) -> str:
    """One byte is one token."""
    return "".join(chr(97 + (seed * 7 + n * n) % 26) for n in range(length))


@pytest.fixture(scope="module")
def store(server: Server, collector: Collector) -> Iterator[Store]:
    """Traffic: a conversation that grows, neighbours that push it off the device, its return, an abort."""
    a = text(1, 400)
    server.ask("a-1", a, "a")
    server.ask("a-2", a + text(2, 100), "a")
    for n in range(3):
        server.ask(f"b-{n}", text(10 + n, 900), f"b{n}")
    server.ask("a-3", a + text(2, 100) + text(3, 60), "a")
    server.ask("a-4", a + text(2, 100) + text(3, 60), "a")
    server.ask("p-1", a, "p", prompt_logprobs=1)
    with pytest.raises(requests.RequestException):
        requests.post(
            f"{server.url}/v1/completions",
            json={"model": "tiny", "prompt": text(40, 600), "max_tokens": 400, "ignore_eos": True},
            headers={"X-Request-Id": "gone-1"},
            timeout=1.0,
        )
    opened = connect(collector.settings.store)
    deadline = time.monotonic() + 60
    while opened.query("select count(*) as n from turns where status is not null").to_pylist()[0]["n"] < 9:
        assert time.monotonic() < deadline, opened.query("from list_turns(null, null, null, null, null, null, 50)").to_pylist()
        time.sleep(0.3)
    yield opened
    opened.close()


def rows(store: Store, sql: str) -> dict[str, dict[str, Any]]:
    """Rows by the id that the client gave: vLLM puts its own prefix and suffixes around it."""
    found = {}
    for row in store.query(sql).to_pylist():
        name = row["turn_id"].removeprefix("cmpl-")
        found[name.rsplit("-", 1)[0] if name.count("-") > 1 else name] = row
    return found


def test_every_request_is_a_turn_and_its_parts_sum(store: Store, server: Server) -> None:
    turns = rows(store, "from turns")
    assert set(turns) == {"a-1", "a-2", "a-3", "a-4", "b-0", "b-1", "b-2", "p-1", "gone-1"}
    for name, answer in server.answers.items():
        turn = turns[name]
        assert turn["complete"], turn
        assert turn["hit_tokens"] + turn["restored_tokens"] + turn["computed_tokens"] == turn["prompt_tokens"]
        assert turn["prompt_tokens"] == answer["usage"]["prompt_tokens"]
        assert turn["output_tokens"] == answer["usage"]["completion_tokens"]
        assert (turn["engine"], turn["status"]) == ("tiny-vllm", "length")
        cached = (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        assert cached == turn["hit_tokens"] + turn["restored_tokens"], name  # no failed restore here: vLLM's own count agrees
        assert turn["ttft_seconds"] <= turn["total_seconds"]
    assert turns["gone-1"]["status"] == "abort"


def test_hits_restores_and_the_turn_that_took_the_room(store: Store) -> None:
    turns = rows(store, "from turns")
    assert (turns["a-1"]["verdict"], turns["a-2"]["verdict"]) == ("cold", "hit")
    assert turns["a-2"]["hit_tokens"] == 400 // BLOCK * BLOCK
    assert turns["a-3"]["verdict"] == "restored", turns["a-3"]
    assert turns["a-4"]["verdict"] == "hit"
    restored = [
        row for row in store.query("from causes").to_pylist() if row["source"] == "restored" and "a-3" in row["turn_id"]
    ]
    assert restored
    assert {row["cause"] for row in restored} == {"evicted.memory"}
    assert all("b-" in row["evicted_by_turn"] for row in restored)


def test_reading_the_cache_switched_off_by_the_request(store: Store) -> None:
    spans = [row for row in store.query("from causes order by start_token").to_pylist() if "p-1" in row["turn_id"]]
    assert spans[0]["cause"] == "disabled.by_request", spans
    assert rows(store, "from turns")["p-1"]["hit_tokens"] == 0


def test_explained_by_the_command(store: Store, collector: Collector) -> None:
    turn = rows(store, "from turns")["a-3"]["turn_id"]
    done = CliRunner().invoke(turnlens, ["explain", turn, "--store", str(collector.settings.store)])
    assert done.exit_code == 0, done.output
    assert "Verdict: restored" in done.output
    assert "from host" in done.output
    assert "to make room for turn" in done.output


def test_what_if_on_its_record(store: Store) -> None:
    """vLLM evicts the least recently used block: replayed with its own blocks, the record gives what was recorded."""
    answer = whatif(store)
    assert (answer.unit, answer.engine) == ("blocks", "tiny-vllm/0")
    assert answer.check is not None
    assert answer.check.policy == "lru_leaf"
    assert answer.check.same == answer.check.turns
