"""The SQL files of this package: one object a file, every column described in the file's own comments.

A table describes its columns beside them. A view or a macro has a head::

    -- What one row is, in a paragraph.
    --
    -- Example: from conversation_of('agent-3') where it grew by 40 tokens:
    --
    --   turn  growth_tokens
    --   2     40
    --
    -- columns
    --   turn_id VARCHAR -- what it means
    create or replace view ...

In the place of ``columns`` may stand ``columns are those of turns``: all, or ``but trace_id, span_id``; ``, and`` more below.

Each folder has a file ``_order``: names say what, the list says when.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import NamedTuple

KINDS = ("tables", "views", "macros")
_HEAD_COLUMN = re.compile(r"^--   (\w+) ([A-Z][^-]*?) -- (.+)$")
_TABLE_COLUMN = re.compile(r"^  (\w+) (.+?)(?: default [^-]+?)?,?\s+-- (.+)$")
_COLUMNS = re.compile(r"^-- columns(?: are those of (\w+)(?: but ([\w, ]+?))?(?:, and)?)?$")
_SIGNATURE = re.compile(r"^create or replace macro \w+\(\s*([^()]*?)\s*\) as table$", re.MULTILINE)


class Column(NamedTuple):
    """A column as its file declares it."""

    name: str
    type: str
    brief: str


class SqlObject(NamedTuple):
    """One table, view or macro: its name, what one row is, its columns, and the SQL that makes it.

    ``notes`` is what its head says between the two, the worked example for one: paragraphs, and blocks that are indented.
    ``arguments`` are the names of a macro's."""

    kind: str
    name: str
    brief: str
    notes: tuple[str, ...]
    arguments: tuple[str, ...]
    columns: tuple[Column, ...]
    sql: str

    @property
    def private(self) -> bool:
        """Names that begin with ``_`` are not for users."""
        return self.name.startswith("_")


@cache
def objects() -> tuple[SqlObject, ...]:
    """Every object of the store, in the order in which they must be made."""
    made: dict[str, SqlObject] = {}
    for kind in KINDS:
        for name, sql in _folder(kind):
            made[name] = parse(kind, name, sql, made)
    return tuple(made.values())


def get(name: str) -> SqlObject:
    """The object of that name. Raises KeyError."""
    for item in objects():
        if item.name == name:
            return item
    raise KeyError(name)


def described(name: str) -> SqlObject | None:
    """The public object of that name; None where there is none."""
    return next((item for item in objects() if item.name == name and not item.private), None)


def examples() -> dict[str, str]:
    """Queries to begin with, by what they answer."""
    found: dict[str, str] = {}
    for _, sql in _folder("examples"):
        title, _, rest = sql.partition("\n")
        found[title.removeprefix("-- ")] = rest.strip().removesuffix(";")
    return found


def _folder(kind: str) -> Iterator[tuple[str, str]]:
    folder = files("turnlens.queries").joinpath(kind)
    order = folder.joinpath("_order").read_text().split()
    there = sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql"))
    if sorted(order) != there:
        raise AssertionError(f"queries/{kind}/_order and the files differ: {sorted(set(order) ^ set(there))}")
    for name in order:
        yield name, folder.joinpath(f"{name}.sql").read_text()


def parse(kind: str, name: str, sql: str, made: Mapping[str, SqlObject]) -> SqlObject:
    """Read an object's description out of its file. ``made`` are those that it may name for their columns."""
    lines = sql.splitlines()
    head = lines[: next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))]
    at, others = next(((i, found) for i, line in enumerate(head) if (found := _COLUMNS.match(line))), (len(head), None))
    pattern, where = (_TABLE_COLUMN, lines) if kind == "tables" else (_HEAD_COLUMN, head[at:])
    columns = [Column(*found.groups()) for line in where if (found := pattern.match(line))]
    if others is not None and others[1] is not None:
        without = (others[2] or "").split(", ")
        columns[:0] = [column for column in made[others[1]].columns if column.name not in without]
    brief, *notes = _paragraphs([line[2:].rstrip() for line in head[:at]]) or [""]
    signature = _SIGNATURE.search(sql)
    named = re.split(r",\s+", signature[1]) if signature is not None and signature[1] else []
    arguments = [name.removesuffix(" := null") for name in named]
    return SqlObject(kind, name, brief, tuple(notes), tuple(arguments), tuple(columns), sql)


def _paragraphs(lines: list[str]) -> list[str]:
    """Sentences are joined to one line; a block that is indented keeps its lines, and needs no empty one around it."""
    runs = groupby(lines, key=lambda line: "block" if line.startswith("   ") else "text" if line else "")
    return [
        ("\n" if kind == "block" else " ").join(line if kind == "block" else line.strip() for line in run)
        for kind, run in runs
        if kind
    ]
