"""The finished ledger of a turn as the engine gets it back, and the verdict on it."""

from dataclasses import dataclass

from turnlens.tracing.ledger import Accounts


@dataclass(frozen=True, slots=True)
class Attribution:
    """Where a turn's prompt tokens came from. All counts are tokens. For a complete turn ``hit + restored + computed`` is the
    prompt's length and ``unobserved`` is 0. ``recomputed`` and ``new`` are None where nothing says what had been seen before.

    ``work_*`` counts what the engine did over all attempts and may exceed the prompt."""

    turn_id: str
    prompt_tokens: int | None
    hit: int
    restored: int
    recomputed: int | None
    new: int | None
    computed: int
    unobserved: int
    work_hit: int
    work_restored: int
    work_computed: int
    seen: int | None
    verdict: str
    complete: bool
    reasons: tuple[str, ...]


def verdict(accounts: Accounts, unit_tokens: int) -> str:
    """Over what had been seen before: cold, hit, restored or recomputed, ties to the worse; incomplete is its own verdict.
    Where S is unknown the largest of hit, restored and computed decides, and nothing reused is ``cold``."""
    if not accounts.complete:
        return "incomplete"
    recomputed, restored = accounts.recomputed, accounts.restored
    if accounts.seen is None:
        if not accounts.hit and not accounts.restored:
            return "cold"
        recomputed = 0
    elif accounts.seen == 0 or accounts.seen < unit_tokens:
        return "cold"
    else:  # past S lies what an attempt of this turn itself had left on another tier
        restored = max(0, min(restored, accounts.seen - accounts.hit))
    ranked = [("recomputed", recomputed or 0), ("restored", restored), ("hit", accounts.hit)]
    return max(ranked, key=lambda item: item[1])[0]  # max keeps the first of equals: the worse


def attribution(turn_id: str, accounts: Accounts, unit_tokens: int) -> Attribution:
    """Make the engine's view of closed accounts."""
    return Attribution(
        turn_id=turn_id,
        prompt_tokens=accounts.prompt_tokens,
        hit=accounts.hit,
        restored=accounts.restored,
        recomputed=accounts.recomputed,
        new=accounts.new,
        computed=accounts.computed,
        unobserved=accounts.unobserved,
        work_hit=accounts.work_hit,
        work_restored=accounts.work_restored,
        work_computed=accounts.work_computed,
        seen=accounts.seen,
        verdict=verdict(accounts, unit_tokens),
        complete=accounts.complete,
        reasons=accounts.reasons,
    )
