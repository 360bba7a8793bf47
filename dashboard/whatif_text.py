"""The answer to what-if, as text for a terminal."""

from turnlens.dashboard import output, wording
from turnlens.dashboard.wording import Row
from turnlens.queries import frames
from turnlens.queries.whatif import WhatIf
from turnlens.queries.words import counted

_ALL = 0.98  # of a prompt found whole the last token is computed


def render(answer: WhatIf) -> str:
    """Head, one table a policy, where reuse stops growing, how well the replay meets the record, what it assumes."""
    parts = [_head(answer)]
    curves: list[Row] = frames.whatif(answer).to_pylist()
    first: list[Row] = []
    for knee in answer.knees:
        chosen = [row for row in curves if row["policy"] == knee.policy]
        figures = [(row["capacity"], row["hit_tokens"]) for row in chosen]
        if first and figures == [(row["capacity"], row["hit_tokens"]) for row in first]:
            parts.append(f"{knee.policy}: the same at each of these capacities")
            continue
        first = first or chosen
        shown = ["capacity", "hit_tokens", "reuse_ratio", "recomputed_tokens", "lost", "note"]
        if any(row["capacity_bytes"] for row in chosen):
            shown.insert(1, "capacity_bytes")
        table = output.text_of([_printed(row) for row in chosen], shown, "table")
        parts.append(f"{knee.policy} (capacity in {answer.unit})\n{table}".rstrip())
    parts += [knees(answer), check(answer), basis(answer)]
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
        f"{counted(answer.turns, 'turn')} and {counted(answer.publishes, 'publish', 'publishes')} replayed; "
        f"{counted(seen, 'prompt token')} had been seen before "
        "(reuse is hit / seen)"
    )


def knees(answer: WhatIf) -> str:
    """Where reuse stops growing."""
    said: list[str] = []
    for knee in answer.knees:
        if knee.capacity is None:
            said.append(f"With {knee.policy} nothing is reused at any capacity.")
            continue
        nearly = f"; {knee.nearly:,} give 99 % of that" if knee.nearly != knee.capacity else ""
        ratio = wording.share(round(1000 * (knee.reuse_ratio or 0)), 1000)
        said.append(f"Reuse stops growing at {knee.capacity:,} {knee.unit} with {knee.policy} ({ratio}){nearly}.")
    if answer.unit == "slots" and any((knee.reuse_ratio or 1) < _ALL for knee in answer.knees):
        said.append("What is missing then is not a matter of slots: the pool, or what was never published.")
    return "\n".join(said)


def check(answer: WhatIf) -> str:
    """How well the replay meets what was recorded."""
    found = answer.check
    if found is None:
        return "What the engine had is not recorded (its capacity or its policy): the replay cannot be checked against it."
    said = f"Checked: at the {found.capacity:,} {answer.unit} that ran with {found.policy} the replay finds the recorded prefix"
    if found.same == found.turns:
        return f"{said} in {'all ' if found.turns > 1 else ''}{counted(found.turns, 'turn')}."
    more = " and others" if found.turns - found.same > len(found.others) else ""
    lines = [
        f"{said} in {found.same:,} of {counted(found.turns, 'turn')}",
        f"(admissions found {counted(found.recorded_tokens, 'token')}, the replay's {found.replayed_tokens:,}; not the same: "
        f"{', '.join(found.others)}{more}).",
    ]
    if not found.close:
        lines.append("That is too far off to rely on these figures: they compare capacities, no more.")
    return "\n".join(lines)


def basis(answer: WhatIf) -> str:
    """What the replay assumes and leaves out."""
    lines = ["Assumes", *(f"  {sentence}" for sentence in answer.assumptions)]
    if answer.left_out:
        named = ", ".join(f"{count:,} {reason}" for reason, count in sorted(answer.left_out.items(), key=lambda item: -item[1]))
        lines.append(f"Left out of the totals: turns {named}.")
    return "\n".join(lines)
