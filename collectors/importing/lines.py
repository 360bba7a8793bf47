"""Lines of a file that may hold anything: huge ones, binary ones, a last one that is not whole."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Longer ones are no line of a log. They are skipped without being held in memory.
MAX_LINE_BYTES = 1 << 20
# A request with a long prompt is one line.
MAX_RECORD_BYTES = 64 << 20
_SAID = 5


@dataclass
class Account:
    """What was read of one file. ``unread`` counts by reason what could not be understood; nothing else came of it."""

    path: str = ""
    lines: int = 0
    turns: int = 0
    unread: Counter[str] = field(default_factory=Counter[str])
    said: list[str] = field(default_factory=list[str])  # the first cases, with their places
    notes: list[str] = field(default_factory=list[str])  # what the source lacks, and what that leaves open

    def skip(self, reason: str, number: int | None = None) -> None:
        """Count something that could not be understood, at a line where that is known."""
        self.unread[reason] += 1
        if len(self.said) < _SAID:
            self.said.append(f"{self.path}:{number}: {reason}" if number else f"{self.path}: {reason}")

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)


def read_lines(path: Path, account: Account, most: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file as text, without their ends. Lines that are too long, or hold zero bytes, are counted and
    left out; bytes that are not UTF-8 are replaced. Raises OSError."""
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(most + 1):
            number += 1
            account.lines += 1
            if len(raw) > most and not raw.endswith(b"\n"):
                while (more := file.readline(most + 1)) and not more.endswith(b"\n"):
                    pass
                account.skip("a line that is too long", number)
                continue
            if b"\0" in raw:
                account.skip("a line with zero bytes", number)
                continue
            yield number, raw.decode("utf-8", "replace").rstrip("\r\n")
