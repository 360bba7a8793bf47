"""What one request brings, ready to be inserted, and what is to be said about it."""

from collections import Counter
from dataclasses import dataclass, field

from turnlens.collectors._untyped import Table


@dataclass
class Rejections:
    """Rows that cannot be stored truthfully: how many, for which reasons, and the first of each reason."""

    reasons: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, reason: str, example: str) -> None:
        self.reasons[reason] += 1
        self.examples.setdefault(reason, example)

    @property
    def count(self) -> int:
        return sum(self.reasons.values())

    def message(self, what: str) -> str:
        """One sentence a reason, for OTLP's partial success. Empty where nothing was rejected."""
        return " ".join(
            f"{count} {what} rejected: {reason} (first: {self.examples[reason]})."
            for reason, count in self.reasons.most_common()
        )


@dataclass
class Batch:
    """The rows of one request, by table, and the counts of what arrived."""

    what: str  # "spans" or "metric points"
    tables: dict[str, Table]
    received: int
    rejections: Rejections
    duplicates: int = 0  # rows that came twice within the request
    faults: int = 0  # rows that are stored with a fault noted

    @property
    def rows(self) -> int:
        """How many rows there are to insert, resources left out."""
        return sum(table.num_rows for name, table in self.tables.items() if name != "resources")
