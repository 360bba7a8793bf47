"""JSON that may hold anything: what a value is, before anything is made of it."""

from typing import Any, cast

_MOST = 1 << 40


def objects(value: object) -> dict[str, Any] | None:
    """An object, or None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def items(value: object) -> list[Any]:
    """A list; an empty one of anything else."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] items are Any here


def whole(value: object) -> int | None:
    """A count that can be one, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None
