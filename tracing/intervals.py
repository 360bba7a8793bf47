"""A partition of token positions: sorted, non-overlapping half-open intervals, each with a label."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

L = TypeVar("L")


class Interval(NamedTuple, Generic[L]):
    """Positions ``start <= p < end`` in tokens, and what is known of them."""

    start: int
    end: int
    label: L


class Intervals(Generic[L]):
    """Labels of token positions. Neighbours with equal labels are merged, so a prompt that is prefilled in hundreds of chunks
    stays one interval, and the linear operations below stay cheap."""

    def __init__(self) -> None:
        self._items: list[Interval[L]] = []

    def __iter__(self) -> Iterator[Interval[L]]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def copy(self) -> "Intervals[L]":
        twin: Intervals[L] = Intervals()
        twin._items = list(self._items)
        return twin

    def put(self, start: int, end: int, label: L) -> None:
        """Give positions [start, end) this label, whatever they had before."""
        if end <= start:
            return
        if not self._items or self._items[-1].end <= start:  # the common case: prefill moves forward
            self._append(Interval(start, end, label))
            return
        merged: list[Interval[L]] = []
        for item in self._items:
            if item.end <= start or item.start >= end:
                merged.append(item)
                continue
            if item.start < start:
                merged.append(Interval(item.start, start, item.label))
            if item.end > end:
                merged.append(Interval(end, item.end, item.label))
        merged.append(Interval(start, end, label))
        merged.sort(key=lambda item: item.start)
        self._items = []
        for item in merged:
            self._append(item)

    def cut(self, start: int) -> None:
        """Forget every position from ``start`` on."""
        kept = [item for item in self._items if item.start < start]
        if kept and kept[-1].end > start:
            kept[-1] = kept[-1]._replace(end=start)
        self._items = kept

    def within(self, start: int, end: int) -> Iterator[tuple[int, int, L | None]]:
        """Walk [start, end) in order, gaps included (label None)."""
        at = start
        for item in self._items:
            if item.end <= at:
                continue
            if item.start >= end:
                break
            if item.start > at:
                yield at, item.start, None
                at = item.start
            upto = min(item.end, end)
            yield at, upto, item.label
            at = upto
        if at < end:
            yield at, end, None

    def _append(self, item: Interval[L]) -> None:
        if self._items and self._items[-1].end == item.start and self._items[-1].label == item.label:
            self._items[-1] = self._items[-1]._replace(end=item.end)
        else:
            self._items.append(item)
