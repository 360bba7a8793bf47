"""What llama-server's slots and its cache in host memory hold, by the prefix keys that ended in them."""

from collections import OrderedDict
from dataclasses import dataclass, field

_ENTRIES = 4_096


@dataclass(slots=True)
class Held:
    """Tokens in a slot, or in an entry of the host's cache, and the keys that end in them: (key, end), ascending."""

    length: int = 0
    keys: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    aborted_at: int | None = None  # of a slot whose last answer was broken off: where that answer began

    def cut(self, length: int) -> list[tuple[str, int]]:
        """Keep so many tokens. Returns the keys that went, deepest first."""
        gone = [item for item in self.keys if item[1] > length]
        self.keys = [item for item in self.keys if item[1] <= length]
        self.length = min(self.length, length)
        return gone[::-1]

    def add(self, key: str, end: int) -> None:
        """A key ends here; what lies beyond has been cut before."""
        if not self.keys or self.keys[-1][1] < end:
            self.keys.append((key, end))
        self.length = max(self.length, end)


class HostCache:
    """Prompts in host memory, the oldest first, as llama-server keeps them."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, Held] = OrderedDict()
        self._next = 0

    def save(self, held: Held) -> None:
        self._entries[self._next] = held
        self._next += 1
        if len(self._entries) > _ENTRIES:
            self._entries.popitem(last=False)

    def drop_oldest(self) -> Held | None:
        return self._entries.popitem(last=False)[1] if self._entries else None

    def take(self, length: int) -> Held | None:
        """The latest prompt of this length, which leaves the cache."""
        found = next((number for number in reversed(self._entries) if self._entries[number].length == length), None)
        return None if found is None else self._entries.pop(found)
