"""A report over a range of turns, as text for a terminal."""

from collections.abc import Sequence
from typing import Any

from turnlens.dashboard import wording
from turnlens.dashboard.wording import Row
from turnlens.queries.reporting import Advice
from turnlens.queries.words import counted

_SHOWN = 8
_SOURCES = ("hit", "restored", "recomputed", "new", "computed")


def render(report: Row) -> str:
    """Totals, where the time goes, what to do."""
    return "\n\n".join([head(report["totals"]), _causes(report["causes"]), _advice(report["advice"])]) + "\n"


def as_json(report: Row) -> Row:
    """The same as data."""
    advice: list[Advice] = report["advice"]
    return report | {
        "advice": [{"what": one.what, "evidence": one.evidence, "gain_seconds": one.gain_seconds} for one in advice]
    }


def head(totals: Row) -> str:
    """How many turns there are, from where their tokens came, and how well what had been seen was reused."""
    whole, prompt = totals["turns"], totals["prompt_tokens"]
    shares = [
        f"{source} {wording.share(totals[f'{source}_tokens'], prompt)}"
        for source in _SOURCES
        if totals[f"{source}_tokens"] is not None and (source != "computed" or totals["computed_tokens"])
    ]
    reuse = totals["reuse_ratio"]
    tokens = "no prompt token of a complete turn" if prompt is None else counted(prompt, "prompt token")
    lines = [
        f"{counted(whole, 'turn')} of {counted(totals['conversations'], 'conversation')} · {tokens} · "
        f"{totals['incomplete_turns']:,} incomplete ({wording.share(totals['incomplete_turns'], whole)})    "
        f"{wording.clock(totals['first_ns'], day=True)} to {wording.clock(totals['last_ns'], day=True)} UTC",
        f"  {'   '.join(shares) or 'None of these turns is complete: nothing is added up, and `turnlens health` says why.'}",
        f"  reuse of what had been seen before: {'unknown' if reuse is None else f'{100 * reuse:.1f} %'} (hit or restored) · "
        f"median time to first token {wording.seconds(totals['median_ttft_seconds'])}",
    ]
    return "\n".join(lines)


def _causes(causes: list[Row]) -> str:
    if not causes:
        return "Where the time goes\n  Nothing was recomputed or restored."
    lines = ["Where the time goes (seconds to first token lost against a hit)"]
    for number, row in enumerate(causes[:_SHOWN], 1):
        lost = "not known" if row["lost_seconds"] is None else wording.seconds(row["lost_seconds"])
        turns, tokens = _aligned(row["turns"], "turn", 6), _aligned(row["tokens"], "token", 11)
        lines.append(f"  {number}  {row['cause']:<32}{lost:>10}  {turns}  {tokens}   {_who(row)}".rstrip())
    if len(causes) > _SHOWN:
        lines.append(f"  and {counted(len(causes) - _SHOWN, 'more cause')}; --format csv has all")
    return "\n".join(lines)


def _aligned(count: int | None, noun: str, digits: int) -> str:
    """A number of things in a column as wide for one as for many, and empty for none."""
    word = noun if count == 1 else f"{noun}s"
    return f"{count:>{digits},} {word:<{len(noun) + 1}}" if count else " " * (digits + len(noun) + 2)


def _who(row: Row) -> str:
    said: list[str] = []
    if row["mostly_by"] is not None:
        said.append(f"most by {row['mostly_by']} ({100 * row['mostly_by_ratio']:.0f} %)")
    if row["free_ratio"] is not None and row["cause"] == "evicted.slots":
        said.append(f"{100 * row['free_ratio']:.0f} % of memory free meanwhile")
    if row["unknown_turns"]:
        said.append(f"the seconds of {counted(row['unknown_turns'], 'turn')} are not known")
    return "; ".join(said)


def unknown(causes: Sequence[Row]) -> str:
    """Of which causes not all seconds are known, in a sentence; empty where they are."""
    of = [f"{counted(row['unknown_turns'], 'turn')} with {row['cause']}" for row in causes if row["unknown_turns"]]
    return f"Not known, and in no bar: the seconds of {', '.join(of)}." if of else ""


def _advice(advice: list[Advice]) -> str:
    if not advice:
        return "What to do\n  Nothing that these turns ask for."
    lines = ["What to do"]
    for number, one in enumerate(advice, 1):
        gain = f": about {wording.seconds(one.gain_seconds)} saved" if one.gain_seconds else ""
        lines.append(f"  {number}  {one.what}{gain}\n     {one.evidence}")
    return "\n".join(lines)


def rows(report: Row) -> tuple[list[Row], list[str]]:
    """The causes as rows, and their columns."""
    causes: list[dict[str, Any]] = report["causes"]
    names = [
        "cause",
        "turns",
        "conversations",
        "tokens",
        "lost_seconds",
        "unknown_turns",
        "mostly_by",
        "mostly_by_ratio",
        "free_ratio",
    ]
    return causes, names
