"""SparkCache's records, lines and receipts, in their forms with own values: whole input, whole output."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.spark_records import names_of
from turnlens.collectors.importing.sparkcache import import_sparkcache

Row = dict[str, Any]
START = 1_790_000_000 * 10**9
DIGEST = "4fa1c09b77de"


def record(event: str, request: str, second: float, rank: int | None = None, **fields: Any) -> str:
    body = {
        "schema": "sparkcache-reuse-trace/v1",
        "event": event,
        "request_id": request,
        "time_ns": START + round(second * 1e9),
        "role": "scheduler" if rank is None else "worker",
        "rank": rank,
        "dcp_rank": rank,
    }
    return f"2026-09-21 (Worker_TP0) INFO spark-context-cache-reuse:{json.dumps(body | fields)}"


def offer(request: str, second: float, span: int = 1024, local: int = 256, **more: Any) -> str:
    fields = {
        "digest": DIGEST,
        "selected_span_tokens": span,
        "offered_external_tokens": span - local,
        "caller_block_aligned_prefix_tokens": local,
        "repeated_offer": False,
    }
    return record("external_restore_offer", request, second, **(fields | more))


def restored(request: str, second: float, rank: int, verified: int = 1024, outcome: str = "verified", **more: Any) -> str:
    fields = {
        "digest": DIGEST,
        "outcome": outcome,
        "requested_span_tokens": 1024,
        "verified_span_tokens": verified,
        "queue_wait_ms": 1.0,
        "service_ms": 28.0,
        "end_to_end_ms": 29.0,
        "page_bytes": 123_456,
        "phase_ms": {"restore_read": 4.0},
    }
    return record("worker_restore_completed", request, second, rank, **(fields | more))


def attribution(request: str, second: float, prompt: int, local: int, external: int, computed: int, **more: Any) -> str:
    fields = {
        "prompt_tokens": prompt,
        "local_tokens_reused": local,
        "external_tokens_reused": external,
        "prompt_tokens_computed": computed,
        "preemptions": 0,
        "attribution_complete": True,
        "status": "FINISHED_STOPPED",
        "accounting_scope": "accepted_target_prompt_work_across_attempts",
    }
    return record("request_cache_attribution", request, second, **(fields | more))


def receipt(request: str, second: float, turn: int, prompt: int, cached: int, **more: Any) -> str:
    return json.dumps(
        {
            "schema": "sparkring-conversation-soak/v1",
            "type": "turn",
            "phase": "restore-only",
            "request_id": request,
            "started_unix": (START + round(second * 1e9)) / 1e9,
            "tokenized_prompt_tokens": prompt,
            "cached_tokens_reported": cached,
            "usage": {"prompt_tokens": prompt, "completion_tokens": 20},
            "ttft_seconds": 0.5,
            "elapsed_seconds": 2.0,
            "agent": "a1",
            "conversation": 7,
            "turn": turn,
        }
        | more
    )


def read(tmp_path: Path, lines: list[str], ranks: int | None = None) -> tuple[MemoryStore, Account]:
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(lines) + "\n")
    store, (account,) = imported(lambda origin: import_sparkcache([path], origin, ranks))
    return store, account


SOURCES = "select hit_tokens, restored_tokens, computed_tokens, complete, incomplete_reasons from turns"


def sources(store: MemoryStore) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in store.rows(SOURCES)]


def test_all_ranks_verified(tmp_path: Path) -> None:
    """P 1,024: 256 local, 768 offered on two ranks; the last token is computed all the same."""
    lines = [
        offer("chatcmpl-q1-1234abcd", 0.0),
        restored("chatcmpl-q1-1234abcd", 0.1, 0),
        restored("chatcmpl-q1-1234abcd", 0.3, 1),
        attribution("chatcmpl-q1-1234abcd", 1.0, 1024, 256, 767, 1),
    ]
    store, account = read(tmp_path, lines)
    assert sources(store) == [(256, 767, 1, True, [])]
    rows = store.rows("select tier, tokens, outcome, seconds from restores")
    assert [tuple(row.values()) for row in rows] == [("disk", 768, "verified", pytest.approx(0.3))]
    assert account.unread == {}


def test_what_a_rank_writes_after_the_account_belongs_to_the_request(tmp_path: Path) -> None:
    """Several processes write one log. The same id again, later, is another request."""
    first = [
        offer("q1", 0.0),
        restored("q1", 0.1, 0),
        attribution("q1", 1.0, 1024, 256, 767, 1),
        restored("q1", 0.3, 1),
    ]
    store, _ = read(tmp_path, [*first, attribution("q1", 9.0, 512, 256, 0, 256)])
    assert sources(store) == [(256, 767, 1, True, []), (256, 0, 256, True, [])]


def test_logs_of_several_processes_in_any_order(tmp_path: Path) -> None:
    """The scheduler's and a rank's: the same request, however they are named."""
    scheduler, rank = tmp_path / "scheduler.log", tmp_path / "rank.log"
    scheduler.write_text(f"{offer('q1', 0.0)}\n{attribution('q1', 1.0, 1024, 256, 767, 1)}\n")
    rank.write_text(f"{restored('q1', 0.1, 0)}\n")
    store = MemoryStore()
    for paths in ([scheduler, rank], [rank, scheduler]):
        imported(partial(lambda paths, origin: import_sparkcache(paths, origin, 1), paths), store)
    assert sources(store) == [(256, 767, 1, True, [])]


FAILED = {
    "a rank is missing": ([(0, 1024, "verified", DIGEST)], (256, 0, 0, False)),
    "a rank found nothing": ([(0, 1024, "verified", DIGEST), (1, 0, "absent", DIGEST)], (256, 0, 768, True)),
    "a rank verified less": ([(0, 1024, "verified", DIGEST), (1, 512, "verified", DIGEST)], (256, 256, 512, True)),
    "a rank verified another digest": (
        [(0, 1024, "verified", DIGEST), (1, 1024, "verified", "ffffffffffff")],
        (256, 0, 768, True),
    ),
}


@pytest.mark.parametrize("name", FAILED)
def test_a_restore_counts_only_where_every_rank_verified_it(name: str, tmp_path: Path) -> None:
    ranks, (hit, brought, computed, complete) = FAILED[name]
    lines = [offer("q1", 0.0)]
    lines += [
        restored("q1", 0.1 * n, rank, verified, outcome, digest=digest)
        for n, (rank, verified, outcome, digest) in enumerate(ranks)
    ]
    lines.append(attribution("q1", 1.0, 1024, hit, brought, 1024 - hit - brought))
    store, _ = read(tmp_path, lines, ranks=2)
    (found,) = sources(store)
    assert found[3] == complete
    if complete:
        assert found[:3] == (hit, brought, computed)


def test_a_lease_is_a_hit(tmp_path: Path) -> None:
    lines = [
        record("gpu_lease_attached", "q", 0.0, digest=DIGEST, lease_span_tokens=1024),
        attribution("q", 1.0, 1100, 1024, 0, 76),
    ]
    store, _ = read(tmp_path, lines)
    assert sources(store) == [(1024, 0, 76, True, [])]
    assert store.rows("select cause from causes where start_token = 0") == [{"cause": "provided.lease"}]


def test_preempted_work_is_not_taken_for_a_prompts_parts(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [attribution("q", 1.0, 1000, 0, 0, 1656, preemptions=1)])
    (found,) = sources(store)
    assert not found[3]
    assert "attribution_across_attempts" in found[4]


def test_an_engine_that_says_its_account_is_not_complete(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [attribution("q", 1.0, 1000, 500, 0, 500, attribution_complete=False)])
    assert "attribution_incomplete" in sources(store)[0][4]


def test_receipts_are_joined_to_the_ledger_turn_by_turn(tmp_path: Path) -> None:
    """The client knows the conversation and the times, the engine where the tokens came from."""
    lines = [
        attribution("chatcmpl-soak-1-1234abcd", 1.9, 1000, 0, 0, 1000),
        receipt("soak-1", 0.0, 1, 1000, 0),
        offer("chatcmpl-soak-2-00ff00ff", 10.1),
        restored("chatcmpl-soak-2-00ff00ff", 10.2, 0),
        attribution("chatcmpl-soak-2-00ff00ff", 11.9, 1100, 256, 768, 76),
        receipt("soak-2", 10.0, 2, 1100, 1024),
        receipt("soak-3", 20.0, 3, 1200, 1100),
    ]
    store, _ = read(tmp_path, lines)
    rows = store.rows(
        "select turn_id, conversation_id, ttft_seconds, total_seconds, hit_tokens, restored_tokens, recomputed_tokens, new_tokens, "
        "seen_basis, complete from turns order by start_ns"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("chatcmpl-soak-1-1234abcd", "a1/7", 0.5, 2.0, 0, 0, 0, 1000, "conversation", True),
        ("chatcmpl-soak-2-00ff00ff", "a1/7", 0.5, 2.0, 256, 768, 0, 76, "conversation", True),
        ("soak-3", "a1/7", None, 2.0, 0, 0, None, None, "none", False),
    ]


def test_ids_are_joined_by_the_letter() -> None:
    assert names_of("chatcmpl-x-1234abcd") == ["chatcmpl-x-1234abcd", "x-1234abcd", "chatcmpl-x", "x"]
    assert names_of("x-1234ABCD") == ["x-1234ABCD"]
    assert names_of("x-1234abcd5") == ["x-1234abcd5"]
    assert names_of("-1234abcd") == ["-1234abcd"]


def test_a_receipt_that_means_two_requests_is_joined_to_none(tmp_path: Path) -> None:
    lines = [
        attribution("x-11111111", 1.0, 100, 0, 0, 100),
        attribution("x-22222222", 2.0, 100, 0, 0, 100),
        receipt("x", 0.0, 1, 100, 0),
    ]
    store, account = read(tmp_path, lines)
    assert [row["turn_id"] for row in store.rows("select turn_id from turns order by 1")] == ["x", "x-11111111", "x-22222222"]
    assert account.notes == ["1 receipts mean several requests each, and are joined to none."]


def test_a_span_is_published_when_every_rank_has_committed_it(tmp_path: Path) -> None:
    at = "2026-09-21 14:13:2{}.500 (Worker_TP{}) INFO"
    lines = [
        f"{at.format(1, 0)} spark-context-cache: rank 0 committed 4096 tokens digest=aaaaaaaaaaaa manifest=m1 in 164.0 ms",
        f"{at.format(2, 1)} spark-context-cache: rank 1 committed 4096 tokens digest=aaaaaaaaaaaa manifest=m1 in 180.0 ms",
        f"{at.format(3, 0)} spark-context-cache: rank 0 committed 4096 tokens digest=bbbbbbbbbbbb manifest=m2 in 164.0 ms",
        f"{at.format(4, 0)} spark-context-cache: store skipped while saver busy digest=cccccccccccc",
        attribution("q", 9.0, 100, 0, 0, 100),
    ]
    store, account = read(tmp_path, lines, ranks=2)
    rows = store.rows(
        "select key, tokens, tier, outcome, reason, (end_ns - start_ns) / 1e6 as ms from spans where name = 'snapshot.publish' order by end_ns"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("aaaaaaaaaaaa", 4096, "disk", "committed", None, 180.0),
        ("cccccccccccc", 0, "disk", "skipped", "busy", 0.0),
    ]
    assert account.notes == ["1 spans were committed by some of 2 ranks only, and count as not published."]


def test_read_twice_it_is_stored_once(tmp_path: Path) -> None:
    at = "2026-09-21 14:13:21.500 (Worker_TP0) INFO"
    path = tmp_path / "a.log"
    path.write_text(
        "\n".join(
            [
                offer("q", 0.0),
                restored("q", 0.1, 0),
                attribution("q", 1.0, 1024, 256, 767, 1),
                f"{at} spark-context-cache: rank 0 committed 4096 tokens digest=aaaaaaaaaaaa manifest=m1 in 164.0 ms",
            ]
        )
    )
    store = MemoryStore()
    for _ in range(2):
        imported(lambda origin: import_sparkcache([path], origin), store)
    assert store.rows(
        "select name, count(*) as n from spans where name in ('turn', 'snapshot.publish') group by 1 order by 1"
    ) == [
        {"name": "snapshot.publish", "n": 1},
        {"name": "turn", "n": 1},
    ]


HOSTILE = [
    'user wrote: {"x": "spark-context-cache-reuse:{}"}',
    "INFO spark-context-cache-reuse:{half",
    "INFO spark-context-cache-reuse:{}",
    'INFO spark-context-cache-reuse:{"schema": "sparkcache-reuse-trace/v1", "event": 7, "request_id": "q", "time_ns": 1}',
    'INFO spark-context-cache-reuse:{"schema": "sparkcache-reuse-trace/v1", "event": "x", "request_id": "q", "time_ns": -1}',
    "INFO spark-context-cache: rank 0 committed many tokens digest=aaaaaaaaaaaa manifest=m1 in 164.0 ms",
    "{not json",
]


def test_hostile_lines_change_nothing_but_a_count(tmp_path: Path) -> None:
    lines = [offer("q", 0.0), restored("q", 0.1, 0), attribution("q", 1.0, 1024, 256, 767, 1)]
    store, account = read(tmp_path, [lines[0], *HOSTILE, *lines[1:]])
    assert sources(store) == [(256, 767, 1, True, [])]
    assert dict(account.unread) == {
        "a record that is not JSON": 1,
        "a record of an unknown schema": 1,
        "a record without an event or a request": 1,
        "a record without a time": 1,
        "a line that is not JSON": 1,
    }


def test_absurd_counts_make_the_turn_incomplete_and_nothing_else(tmp_path: Path) -> None:
    lines = [attribution("q", 1.0, 1024, -5, 10**30, 1), attribution("w", 2.0, 100, 0, 0, 100)]
    store, _ = read(tmp_path, lines)
    assert store.rows("select turn_id, complete from turns order by 1") == [
        {"turn_id": "q", "complete": False},
        {"turn_id": "w", "complete": True},
    ]


def test_a_file_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no record of SparkCache was found"):
        read(tmp_path, ["hello"])


def test_a_request_that_is_under_way_is_told_when_it_has_ended(tmp_path: Path) -> None:
    lines = [offer("q", 0.0), restored("q", 0.1, 0)]
    store, account = read(tmp_path, lines)
    assert sources(store) == []
    assert account.notes == ["1 requests were under way where the log ends; they are not told."]
    path = tmp_path / "vllm.log"
    path.write_text("\n".join([*lines, attribution("q", 1.0, 1024, 256, 767, 1)]))
    imported(lambda origin: import_sparkcache([path], origin), store)
    assert sources(store) == [(256, 767, 1, True, [])]


def test_a_request_without_an_account_is_told_when_nothing_more_came(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [offer("q", 0.0), attribution("w", 700.0, 100, 0, 0, 100)])
    assert store.rows("select turn_id, status, complete from turns order by 1") == [
        {"turn_id": "q", "status": "abort", "complete": False},
        {"turn_id": "w", "status": "stop", "complete": True},
    ]


def test_an_id_that_comes_again_is_another_request(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [attribution("q", 1.0, 1000, 0, 0, 1000), attribution("q", 5_000.0, 2000, 0, 0, 2000)])
    assert [tuple(row.values()) for row in store.rows("select request_id, prompt_tokens from turns order by start_ns")] == [
        ("q", 1000),
        ("q", 2000),
    ]


def test_lines_and_receipts_that_come_twice_count_once(tmp_path: Path) -> None:
    lines = [
        offer("q", 0.0),
        restored("q", 0.1, 0),
        attribution("q", 1.0, 1024, 256, 767, 1),
        receipt("alone", 30.0, 1, 100, 0),
    ]
    store, _ = read(tmp_path, [*lines, *lines])
    assert sources(store)[0] == (256, 767, 1, True, [])
    assert len(sources(store)) == 2


def test_two_receipts_of_one_id_are_two_turns(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [receipt("q", 0.0, 1, 100, 0), receipt("q", 50.0, 2, 200, 0)])
    assert store.rows("select count(*) as n from turns") == [{"n": 2}]


def test_ranks_that_only_commit_are_ranks(tmp_path: Path) -> None:
    """Rank 0 has committed, and again; rank 1 something else: nothing is published."""
    at = "2026-09-21 14:13:2{}.500 (Worker_TP{}) INFO"
    line = "spark-context-cache: rank {} committed 4096 tokens digest={} manifest=m1 in 164.0 ms"
    lines = [
        f"{at.format(1, 0)} {line.format(0, 'aaaaaaaaaaaa')}",
        f"{at.format(2, 0)} {line.format(0, 'aaaaaaaaaaaa')}",
        f"{at.format(3, 1)} {line.format(1, 'bbbbbbbbbbbb')}",
        attribution("q", 9.0, 100, 0, 0, 100),
    ]
    store, _ = read(tmp_path, lines)
    assert store.rows("select count(*) as n from spans where name = 'snapshot.publish'") == [{"n": 0}]


def test_a_repeated_offer_after_the_load_changes_nothing(tmp_path: Path) -> None:
    lines = [
        offer("q", 0.0),
        restored("q", 0.3, 0),
        offer("q", 0.5, repeated_offer=True),
        attribution("q", 1.0, 1024, 256, 767, 1),
    ]
    store, _ = read(tmp_path, lines)
    assert sources(store) == [(256, 767, 1, True, [])]
