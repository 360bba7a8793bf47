"""What the span of a finished turn tells of it."""

from turnlens.tracing.ledger import Accounts
from turnlens.tracing.spans import Value
from turnlens.tracing.turnstate import TurnState


def turn_attributes(
    state: TurnState,
    accounts: Accounts,
    verdict: str,
    status: str,
    output_tokens: int | None,
    times: dict[str, Value],
) -> dict[str, Value]:
    """The attributes of a turn's own span: what the engine said of it, its accounts, its segments, its keys, its times."""
    begin, previous, restores = state.begin, state.previous, state.restores
    return {
        **begin.facts,
        **state.trace.ids,
        "turnlens.previous_turn_id": previous.turn_id if previous else None,
        "turnlens.previous_end_tokens": (previous.end or None) if previous else None,
        "turnlens.session_id": begin.session,
        "turnlens.cache_disabled": begin.cache_disabled,
        "turnlens.prompt_tokens": accounts.prompt_tokens,
        "gen_ai.usage.input_tokens": accounts.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": accounts.hit + accounts.restored if accounts.complete else None,
        "gen_ai.usage.output_tokens": output_tokens,
        "turnlens.status": status,
        "turnlens.complete": accounts.complete,
        "turnlens.incomplete_reasons": list(accounts.reasons) or None,
        "turnlens.verdict": verdict,
        "turnlens.hit_tokens": accounts.hit,
        "turnlens.restored_tokens": accounts.restored,
        "turnlens.computed_tokens": accounts.computed,
        "turnlens.recomputed_tokens": accounts.recomputed,
        "turnlens.new_tokens": accounts.new,
        "turnlens.unobserved_tokens": accounts.unobserved,
        "turnlens.work_hit_tokens": accounts.work_hit,
        "turnlens.work_restored_tokens": accounts.work_restored,
        "turnlens.work_computed_tokens": accounts.work_computed,
        "turnlens.wasted_restored_tokens": accounts.wasted_restored,
        "turnlens.wasted_computed_tokens": accounts.wasted_computed,
        "turnlens.self_recovered_tokens": accounts.self_recovered,
        "turnlens.discarded_tokens": accounts.discarded,
        "turnlens.seen_tokens": accounts.seen,
        "turnlens.seen_basis": state.prefix.basis,
        "turnlens.seen_since_ns": state.prefix.since_ns or None,
        "turnlens.attempts": accounts.attempts,
        "turnlens.retries": accounts.retries,
        "turnlens.restores": restores.made + restores.under_way,
        **state.prefix.segments(accounts),
        **state.prefix.reference(),
        **times,
    }
