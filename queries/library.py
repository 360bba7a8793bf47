"""The SQL files of this package: one object a file, every column described in the file's own comments.

A table describes its columns beside them. A view or a macro has a head::

    -- What one row is, in a paragraph.
    --
    -- columns
    --   turn_id VARCHAR -- what it means
    create or replace view ...

Each folder has a file ``_order``: names say what, the list says when.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

KINDS = ("tables", "views", "macros")
_HEAD_COLUMN = re.compile(r"^--   (\w+) ([A-Z][^-]*?) -- (.+)$")
_TABLE_COLUMN = re.compile(r"^  (\w+) (.+?)(?: default [^-]+?)?,?\s+-- (.+)$")


class Column(NamedTuple):
    """A column as its file declares it."""

    name: str
    type: str
    brief: str


class SqlObject(NamedTuple):
    """One table, view or macro: its name, what one row is, its columns, and the SQL that makes it."""

    kind: str
    name: str
    brief: str
    columns: tuple[Column, ...]
    sql: str

    @property
    def private(self) -> bool:
        """Names that begin with ``_`` are not for users."""
        return self.name.startswith("_")


@cache
def objects() -> tuple[SqlObject, ...]:
    """Every object of the store, in the order in which they must be made."""
    return tuple(item for kind in KINDS for item in _folder(kind))


def get(name: str) -> SqlObject:
    """The object of that name. Raises KeyError."""
    for item in objects():
        if item.name == name:
            return item
    raise KeyError(name)


def _folder(kind: str) -> Iterator[SqlObject]:
    folder = files("turnlens.queries").joinpath(kind)
    order = folder.joinpath("_order").read_text().split()
    there = sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql"))
    if sorted(order) != there:
        raise AssertionError(f"queries/{kind}/_order and the files differ: {sorted(set(order) ^ set(there))}")
    for name in order:
        yield parse(kind, name, folder.joinpath(f"{name}.sql").read_text())


def parse(kind: str, name: str, sql: str) -> SqlObject:
    """Read an object's description out of its file."""
    lines = sql.splitlines()
    head = lines[: next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))]
    pattern, where = (_TABLE_COLUMN, lines) if kind == "tables" else (_HEAD_COLUMN, head)
    columns = tuple(Column(*found.groups()) for line in where if (found := pattern.match(line)))
    paragraph: list[str] = []
    for line in head:
        text = line.removeprefix("--").strip()
        if not text:
            break
        paragraph.append(text)
    return SqlObject(kind, name, " ".join(paragraph), columns, sql)
