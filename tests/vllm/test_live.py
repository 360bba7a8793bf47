"""A live vLLM with real KV, in this process: the real scheduler, connector, recorder and spans, and a random tiny model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_model import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


def text(seed: int, length: int) -> list[int]:
    from scheduler_bench import text

    return text(seed, length)


def check(turns: list[dict[str, Any]]) -> None:
    """What must hold of every complete turn."""
    for turn in turns:
        assert turn["complete"], turn.get("incomplete_reasons")
        assert turn["hit_tokens"] + turn["restored_tokens"] + turn["computed_tokens"] == turn["prompt_tokens"]
        assert turn["recomputed_tokens"] + turn["new_tokens"] == turn["computed_tokens"]
        assert turn["unobserved_tokens"] == 0
        spans = zip(turn["segments.start_tokens"], turn["segments.end_tokens"], strict=True)
        assert [end for _, end in spans][-1] == turn["prompt_tokens"]
        assert 0 < turn["ttft_ns"] <= turn["total_ns"]
        assert turn["frontend_ns"] + turn["queue_ns"] + turn["restore_ns"] + turn["compute_ns"] == turn["ttft_ns"]


# -- restores through the real OffloadingConnector -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from live import Live, offloading

    with Live(model, tmp_path_factory.mktemp("faults") / "control", kv_transfer_config=offloading()) as live:
        yield live


@pytest.fixture(autouse=True)
def tidy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins with an empty device and no faults, and leaves nothing behind."""
    if "engine" in request.fixturenames:
        live = request.getfixturevalue("engine")
        live.inject("")
        live.forget_device()
        live.forget_spans()
    yield
    if "engine" in request.fixturenames:
        assert not live.trace.faults.by_hook
        assert not live.trace.turns


def test_hit_and_restore_bring_back_the_right_kv(engine: Any) -> None:
    from live import first_logprobs, furthest, sources

    prompt = text(10, 500)
    computed, hit = engine.ask(prompt), engine.ask(prompt)
    engine.forget_device()
    restored = engine.ask(prompt)
    engine.forget_device()
    engine.inject("corrupt=1")  # the negative control: zeros, reported as good
    corrupted = engine.ask(prompt)

    turns = engine.turns()
    assert [sources(turn) for turn in turns] == [(0, 0, 500), (480, 0, 20), (0, 480, 20), (0, 480, 20)]
    assert [turn["verdict"] for turn in turns] == ["cold", "hit", "restored", "restored"]
    check(turns)

    truth = first_logprobs(computed[0])
    assert furthest(truth, first_logprobs(hit[0])) == 0
    assert furthest(truth, first_logprobs(restored[0])) == 0
    assert furthest(truth, first_logprobs(corrupted[0])) > 1

    (first, _) = engine.spans("snapshot.restore")
    assert (first["tier"], first["outcome"], first["tokens"], first["valid_prefix_tokens"]) == ("host", "verified", 480, 480)
    admits = engine.spans("scheduler.admit")
    assert [(admit["admit.hit_tokens"], admit["admit.offered_tokens"]) for admit in admits][:3] == [(0, 0), (480, 0), (0, 480)]


def test_failed_restore(engine: Any) -> None:
    """128 on the device, 352 offered, the second block of them bad. vLLM says 480 were cached."""
    from live import first_logprobs, furthest, sources

    prompt = text(11, 560)
    engine.ask(prompt[:490])  # 480 of them reach the host
    engine.forget_device()
    engine.ask(prompt[:128] + text(12, 10))
    engine.inject("fail=1")
    failed = engine.ask(prompt)
    truth = engine.ask(prompt, skip_reading_prefix_cache=True)

    turn, whole = engine.turns()[-2:]
    assert sources(turn) == (128, 32, 400)
    assert (turn["seen_tokens"], turn["recomputed_tokens"]) == (480, 320)
    assert failed[0].num_cached_tokens == 480
    assert (sources(whole), whole["cache_disabled"]) == ((0, 0, 560), "by_request")
    assert furthest(first_logprobs(truth[0]), first_logprobs(failed[0])) < 1e-4
    restore = engine.spans("snapshot.restore")[-1]
    assert (restore["outcome"], restore["reason"], restore["valid_prefix_tokens"]) == ("failed", "partial", 160)
    check(engine.turns())


def test_restore_that_fails_at_its_first_block(engine: Any) -> None:
    from live import first_logprobs, furthest, sources

    prompt = text(13, 200)
    truth = engine.ask(prompt)
    engine.forget_device()
    engine.inject("fail=0 once=1")  # vLLM offers it again, and would for ever
    failed = engine.ask(prompt)
    turn = engine.turns()[-1]
    assert sources(turn) == (0, 192, 8)
    assert (turn["attempts"], turn["discarded_tokens"]) == (1, 192)
    assert [span["outcome"] for span in engine.spans("snapshot.restore")] == ["failed", "verified"]
    assert furthest(first_logprobs(truth[0]), first_logprobs(failed[0])) < 1e-4
    check(engine.turns())


def test_full_hit_with_an_external_tail(engine: Any) -> None:
    from live import sources

    prompt = text(14, 128)
    engine.ask(prompt + text(15, 40))
    engine.forget_device()
    engine.ask(prompt[:96] + text(16, 4))
    result = engine.ask(prompt)
    assert sources(engine.turns()[-1]) == (96, 31, 1)
    assert result[0].num_cached_tokens == 128
    check(engine.turns())


def test_cancelled_restore(engine: Any) -> None:
    from vllm import SamplingParams

    prompt = text(17, 300)
    engine.ask(prompt)
    engine.forget_device()
    engine.forget_spans()
    engine.inject("delay=100000")
    core = engine.llm.llm_engine
    core.add_request("leaving", {"prompt_token_ids": prompt}, SamplingParams(max_tokens=1))
    for _ in range(5):
        core.step()
    core.abort_request(["leaving"], internal=False)
    engine.inject("")
    engine.settle()

    (turn,) = engine.turns()
    assert (turn["request_id"], turn["status"], turn["complete"]) == ("leaving", "abort", False)
    assert (turn["work_hit_tokens"], turn["work_restored_tokens"], turn["work_computed_tokens"]) == (0, 0, 0)
    assert turn["discarded_tokens"] == 288
    (restore,) = engine.spans("snapshot.restore")
    assert (restore["outcome"], restore["reason"]) == ("cancelled", "cancelled")


def test_the_host_tier_is_recorded(engine: Any) -> None:
    engine.ask(text(18, 200))
    engine.settle()
    (published,) = [span for span in engine.spans("snapshot.publish") if span["tier"] == "host"]
    (device,) = [span for span in engine.spans("snapshot.publish") if span["tier"] == "device"]
    assert published["keys"] == device["keys"]
    assert (published["tokens"], published["turn_id"]) == (192, device["turn_id"])


def test_a_full_host_tier_names_the_turn_that_needed_the_room(model: Path, tmp_path: Path) -> None:
    from live import Live, offloading

    with Live(model, tmp_path / "control", kv_transfer_config=offloading(host_bytes=8 * 32_768)) as live:  # 8 blocks
        live.ask(text(1, 160))
        live.settle()
        live.ask(text(2, 160))
        live.settle()
        first, second = live.turns()
        evicted = [span for span in live.spans("snapshot.evict") if span["tier"] == "host"]
    assert sum(span["tokens"] for span in evicted) == 64  # 5 + 5 blocks into 8
    assert {span["reason"] for span in evicted} == {"tier_capacity"}
    assert {(span["owner_turn_id"], span["turn_id"]) for span in evicted} == {(first["turn_id"], second["turn_id"])}


# -- pressure, without a connector -------------------------------------------------------------------------------------------


def test_pressure(model: Path, tmp_path: Path) -> None:
    """32 usable blocks of 32 tokens, 256 tokens a step. (vLLM turns asynchronous scheduling off on CPU.)"""
    from live import Live, first_logprobs, furthest, sources

    with Live(model, tmp_path / "control") as live:
        # Chunked prefill: 600 tokens in three steps.
        old = text(1, 600)
        truth = live.ask(old)
        (prefill,) = live.spans("prefill")
        assert (prefill["first_token"], prefill["last_token"], prefill["steps"]) == (0, 600, 3)

        # Eviction, with the turn that it made room for, and what it cost the old one.
        live.ask(text(2, 700))
        again = live.ask(old)
        first, second, third = live.turns()
        evicted = [span for span in live.spans("snapshot.evict") if span["owner_turn_id"] == first["turn_id"]]
        assert {span["turn_id"] for span in evicted} == {second["turn_id"]}
        assert {span["reason"] for span in evicted} == {"memory"}
        lost = sum(span["tokens"] for span in evicted)
        hit = sources(third)[0]
        assert (hit + lost, hit % 32) == (576, 0)  # 18 full blocks: what is not a hit was evicted, and by whom is known
        assert third["recomputed_tokens"] == lost
        assert furthest(first_logprobs(truth[0]), first_logprobs(again[0])) < 1e-4
        admit = live.spans("scheduler.admit")[-1]
        assert set(admit["links"]) <= {span["span_id"] for span in evicted}
        assert admit["links"]

        # Preemption: two that fit, until both have grown.
        live.ask(text(3, 480), text(4, 480), max_tokens=90)
        turns = live.turns()
        one, two = sorted(turns[-2:], key=lambda turn: turn["attempts"])
        assert (one["attempts"], two["attempts"]) == (1, 2)
        assert two["work_computed_tokens"] > two["computed_tokens"] == 480
        assert two["wasted_computed_tokens"] == two["work_computed_tokens"] - 480
        check(turns)
        assert not live.trace.faults.by_hook


def test_untraced_engine_gives_the_same_tokens(model: Path, tmp_path: Path) -> None:
    from live import Live

    def drive(live: Live) -> list[Any]:
        tokens: list[Any] = []
        for seed in range(4):
            results = live.ask(text(seed, 300), text(seed % 2, 200), max_tokens=12)
            tokens.append([result.outputs[0].token_ids for result in results])
        return tokens

    with Live(model, tmp_path / "control", traced=False) as live:
        plain = drive(live)
    with Live(model, tmp_path / "control") as live:
        assert drive(live) == plain
