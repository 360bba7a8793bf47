"""The answer to what-if, as text for a terminal or as rows."""

from turnlens.dashboard import output, wording
from turnlens.dashboard.wording import Row
from turnlens.queries.whatif import WhatIf

COLUMNS = (
    "policy",
    "capacity",
    "unit",
    "capacity_bytes",
    "turns",
    "seen_tokens",
    "hit_tokens",
    "reuse_ratio",
    "recomputed_tokens",
    "lost_seconds",
    "note",
)


def rows(answer: WhatIf) -> list[Row]:
    """One row a capacity and policy."""
    return [{name: getattr(outcome, name) for name in COLUMNS} for outcome in answer.curve]


def render(answer: WhatIf) -> str:
    """Head, one table a policy, where reuse stops growing, how well the replay meets the record, what it assumes."""
    parts = [_head(answer)]
    for knee in answer.knees:
        chosen = [row for row in rows(answer) if row["policy"] == knee.policy]
        shown = ["capacity", "hit_tokens", "reuse_ratio", "recomputed_tokens", "lost", "note"]
        if any(row["capacity_bytes"] for row in chosen):
            shown.insert(1, "capacity_bytes")
        table = output.text_of([_printed(row) for row in chosen], shown, "table")
        parts.append(f"{knee.policy} (capacity in {answer.unit})\n{table}".rstrip())
    parts += [_knees(answer), _check(answer), _basis(answer)]
    return "\n\n".join(part for part in parts if part) + "\n"


def kept(explained: Row) -> str:
    """What would have kept one turn's prefix, in a sentence or two."""
    turn, found = explained["turn"], explained["kept_by"]
    if found is None:
        return (
            f"Turn {turn['turn_id']} ({turn['verdict']}, {turn['main_cause']}) lost nothing to an eviction under pressure, or "
            "nothing of which a replay could tell more."
        )
    return f"What would have kept tokens 0-{found['tokens']:,} of turn {turn['turn_id']}\n  {wording.kept_by(found)}"


def _printed(row: Row) -> Row:
    lost = row["lost_seconds"]
    return row | {"lost": "" if lost is None else wording.seconds(lost)}


def _head(answer: WhatIf) -> str:
    of = f", conversation {answer.conversation}" if answer.conversation is not None else ""
    seen = answer.curve[0].seen_tokens if answer.curve else 0
    first, last = wording.clock(answer.first_ns, day=True), wording.clock(answer.last_ns, day=True)
    return (
        f"Engine {answer.engine}{of}, {first} to {last} UTC\n"
        f"{answer.turns:,} turns and {answer.publishes:,} publishes replayed; {seen:,} prompt tokens had been seen before "
        "(reuse is hit / seen)"
    )


def _knees(answer: WhatIf) -> str:
    said: list[str] = []
    for knee in answer.knees:
        if knee.capacity is None:
            said.append(f"With {knee.policy} nothing is reused at any capacity.")
            continue
        nearly = f"; {knee.nearly:,} give 99 % of that" if knee.nearly != knee.capacity else ""
        ratio = wording.share(round(1000 * (knee.reuse_ratio or 0)), 1000)
        said.append(f"Reuse stops growing at {knee.capacity:,} {knee.unit} with {knee.policy} ({ratio}){nearly}.")
    return "\n".join(said)


def _check(answer: WhatIf) -> str:
    check = answer.check
    if check is None:
        return "What the engine had is not recorded (its capacity or its policy): the replay cannot be checked against it."
    said = f"Checked: at the recorded {check.capacity:,} {answer.unit} with {check.policy} the replay finds the recorded prefix"
    if check.same == check.turns:
        return f"{said} in all {check.turns:,} turns."
    return (
        f"{said} in {check.same:,} of {check.turns:,} turns ({check.replayed_tokens:,} tokens found, recorded "
        f"{check.recorded_tokens:,})."
    )


def _basis(answer: WhatIf) -> str:
    lines = ["Assumes", *(f"  {sentence}" for sentence in answer.assumptions)]
    if answer.left_out:
        named = ", ".join(f"{count:,} {reason}" for reason, count in sorted(answer.left_out.items(), key=lambda item: -item[1]))
        lines.append(f"Left out of the totals: turns {named}.")
    return "\n".join(lines)
