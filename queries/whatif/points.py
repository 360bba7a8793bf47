"""The reuse points of a recorded stream: a tree of prefixes, each known by the digest of all that comes before it.

A turn's span lists only the keys that had not been seen before, with the one above them, so that a prompt that grows a hundred
times is not written a hundred times. Here the lists are put together again. Memory is linear in distinct keys.
"""

from collections.abc import Iterable, Sequence


class Points:
    """Reuse points by number, parents before children. ``end`` is a position [tokens], ``parent`` a number or -1 for the
    beginning of a prompt, ``published`` whether it was ever made reusable, ``key`` the digest of the prefix."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.end: list[int] = []
        self.published = bytearray()
        self.key: list[str] = []
        self.older: set[str] = set()  # roots above which there is more that is not known
        self._root: list[int] = []
        self._number: dict[str, int] = {}
        self._declared: dict[str, tuple[str | None, int | None, int]] = {}  # key -> parent key, end, or tokens past the parent

    def __len__(self) -> int:
        return len(self.parent)

    def declare(self, keys: Sequence[str], parent_key: str | None, ends: Sequence[int] | None, tokens_each: int = 0) -> None:
        """Keys of one chain, in order of depth: where each ends, or how many tokens each adds. What was said first holds."""
        above = parent_key
        for at, key in enumerate(keys):
            if key not in self._declared:
                self._declared[key] = (above, None if ends is None else ends[at], tokens_each)
            above = key

    def number(self, key: str | None) -> int | None:
        """The number of a key, or None where it or something above it was never declared."""
        if key is None:
            return None
        found = self._number.get(key)
        if found is not None:
            return found
        missing: list[str] = []
        above: str | None = key
        while above is not None and above not in self._number:
            declared = self._declared.get(above)
            if declared is None or len(missing) > len(self._declared):  # never said, or in a circle
                return None
            missing.append(above)
            above = declared[0]
        parent = -1 if above is None else self._number[above]
        for name in reversed(missing):
            _, end, each = self._declared[name]
            start = self.end[parent] if parent >= 0 else 0
            parent = self.add(name, parent, start + each if end is None else end)
        return parent

    def add(self, key: str, parent: int, end: int) -> int:
        """A point below another. Returns its number."""
        number = len(self.parent)
        self.parent.append(parent)
        self.end.append(end)
        self.published.append(0)
        self.key.append(key)
        self._root.append(self._root[parent] if parent >= 0 else number)
        self._number[key] = number
        return number

    def chain(self, deepest: int) -> list[int]:
        """The points of a prompt, from its beginning to ``deepest``."""
        found: list[int] = []
        at = deepest
        while at >= 0:
            found.append(at)
            at = self.parent[at]
        found.reverse()
        return found

    def root(self, number: int) -> int:
        """The first point of the prompt that a point belongs to."""
        return self._root[number]

    def publish(self, numbers: Iterable[int]) -> None:
        """These were made reusable at some time."""
        for number in numbers:
            self.published[number] = 1
