"""A comparison as text: the figures of both sides, then in sentences what differs, what does not, and what cannot be told."""

from typing import Any

from turnlens.dashboard import output, wording
from turnlens.queries.comparing import Condition, Side, Sides
from turnlens.queries.ranges import Range
from turnlens.queries.words import counted

Row = dict[str, Any]
_CAUSES = 8
NOTE = (
    "hit: found on the device, leases included. cached: hit or restored. Intervals: 95 %, from 1,000 draws of whole\n"
    "conversations; of 20 figures that do not differ, about one looks as if it did. Conversations of one engine wait for\n"
    "each other, and one run is one course of events: what other runs would give may lie further off."
)


def render(of: Sides, rows: list[Row]) -> str:
    """The whole answer."""
    listed, more = shown(rows)
    table = figures(listed)
    parts = ["\n".join(head(letter, of, rows) for letter in "AB"), output.text_of(table, list(table[0]), "table").rstrip()]
    if more:
        parts[-1] += f"\nand {counted(more, 'more cause')}; --format csv prints all"
    parts += [*sentences(listed), NOTE]
    return "\n\n".join(parts) + "\n"


def figures(rows: list[Row]) -> list[Row]:
    """Every figure as a person reads it, with its unit: rows of macro compare."""
    return [
        {
            "figure": row["figure"],
            "A": _value(row["a"], row["unit"]),
            "B": _value(row["b"], row["unit"]),
            "B - A": _value(row["difference"], row["unit"], "points", sign=True),
            "95 % interval": _interval(row),
            "turns A": row["turns_a"],
            "turns B": row["turns_b"],
        }
        for row in rows
    ]


def judged(condition: Condition, outcome: str, rows: list[Row]) -> str:
    """What became of a condition, in a sentence."""
    row = next((row for row in rows if row["figure"] == condition.figure), None)
    if row is None or row["difference"] is None:
        return f"{condition.text}: cannot be told, for a side has no such turns."
    found = f"the difference is {row['difference']:.4g}"
    if outcome == "unknown":
        return f"{condition.text}: cannot be told. {found.capitalize()}, and conversations are too few for an interval."
    said = f"{found} ({row['low']:.4g} to {row['high']:.4g})" if row["low"] is not None else found
    if outcome == "failed":
        return f"{condition.text}: {said}."
    return f"{condition.text}: passed, {said}."


def shown(rows: list[Row]) -> tuple[list[Row], int]:
    """Rows without what is 0 on both sides, and with the most frequent causes only."""
    some = [row for row in rows if row["a"] or row["b"] or row["figure"] == "incomplete_turns"]
    causes = [row for row in some if row["figure"].startswith("cause_ratio.")]
    return [row for row in some if row not in causes[_CAUSES:]], len(causes[_CAUSES:])


def head(letter: str, of: Sides, rows: list[Row]) -> str:
    """Which side it is, and how many turns it has."""
    side: Side = of.a if letter == "A" else of.b
    turns, left_out = (next(row for row in rows if row["figure"] == name) for name in ("turns", "incomplete_turns"))
    key = letter.lower()
    name = f"{of.by} {side.name}" if side.name is not None else ""
    return (
        f"{letter}  {', '.join(part for part in (name, _times(side.over)) if part)}: {counted(turns[key], 'turn')}, "
        f"{counted(turns[f'conversations_{key}'], 'conversation')}; {left_out[key]:,.0f} incomplete left out"
    )


def _times(over: Range) -> str:
    since, until = (wording.clock(ns, day=True) if ns is not None else "" for ns in (over.since_ns, over.until_ns))
    return f"{since}..{until} {wording.zone()}" if since or until else ""


def _value(value: float | None, unit: str, points: str = "%", sign: bool = False) -> str:
    """A figure or a difference, without its unit where that is turns or tokens."""
    if value is None:
        return ""
    shown, digits, suffix = value, 0, ""
    if unit == "ratio":
        shown, digits, suffix = 100 * value, 1, f" {points}"
    elif unit == "s":
        digits, suffix = (1 if abs(value) >= 10 else 2), " s"
    shown = round(shown, digits) + 0.0  # without the sign of -0.0
    return f"{shown:{'+' if sign and shown else ''},.{digits}f}{suffix}"


def _interval(row: Row) -> str:
    if row["low"] is None:
        return ""
    low, high = (_value(row[end], row["unit"], "points", sign=True) for end in ("low", "high"))
    return f"{low.removesuffix(' points').removesuffix(' s')} to {high}"


def sentences(rows: list[Row]) -> list[str]:
    """What differs, what does not, and what cannot be told, a paragraph each."""
    compared = [row for row in rows if row["difference"] is not None]
    differ = [_differs(row) for row in compared if row["differs"]]
    same = [
        f"{row['figure']} ({_interval(row)})"
        for row in compared
        if row["differs"] is False and row["figure"] != "incomplete_turns"
    ]
    few = [row["figure"] for row in rows if row["differs"] is None]
    said: list[str] = []
    if differ:
        said.append("Differs\n" + "\n".join(f"  {line}" for line in differ))
    else:
        said.append("No figure differs." if same else "Whether anything differs cannot be told.")
    if same:
        said.append("No difference to be seen (it lies within)\n" + "\n".join(f"  {line}" for line in same))
    if few:
        said.append(
            "Cannot be told: too few conversations, or such turns on one side only\n" + "\n".join(f"  {line}" for line in few)
        )
    return said


def _differs(row: Row) -> str:
    unit = row["unit"]
    word = "more" if row["difference"] > 0 else "less"
    ends = sorted((abs(row["low"]), abs(row["high"])))
    low, high = (_value(end, unit, "points") for end in ends)
    by = _value(abs(row["difference"]), unit, "points")
    return (
        f"{row['meaning']}: {_value(row['a'], unit)} against {_value(row['b'], unit)}, {by} {word} "
        f"({low.removesuffix(' points').removesuffix(' s')} to {high})"
    )
