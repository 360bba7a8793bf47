"""Query results as Arrow, JSON or CSV, written batch by batch."""

import base64
import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import TracebackType
from typing import Any, BinaryIO, cast

from turnlens.collectors._untyped import ipc, pa
from turnlens.collectors.wire import JSON


class ResultWriter(ABC):
    """Writes record batches of one schema into a file. Set ``truncated`` before the end where rows were left out."""

    media_type = ""

    def __init__(self, file: BinaryIO, schema: Any) -> None:
        self._file = file
        self._schema = schema
        self.rows = 0
        self.truncated = False
        self._begin()

    def __enter__(self) -> "ResultWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def write(self, batch: Any) -> None:
        """Add the rows of a batch."""
        if batch.num_rows:
            self._write(batch)
            self.rows += int(batch.num_rows)

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _write(self, batch: Any) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


class ArrowWriter(ResultWriter):
    """An Arrow IPC stream."""

    media_type = "application/vnd.apache.arrow.stream"

    def _begin(self) -> None:
        self._stream = ipc.new_stream(self._file, self._schema)

    def _write(self, batch: Any) -> None:
        self._stream.write_batch(batch)

    def _end(self) -> None:
        self._stream.close()


class JsonWriter(ResultWriter):
    """``{"columns": [...], "types": [...], "rows": [[...], ...], "row_count": 2, "truncated": false}``."""

    media_type = JSON

    def _begin(self) -> None:
        columns, types = json.dumps(self._schema.names), json.dumps([str(kind) for kind in self._schema.types])
        self._file.write(f'{{"columns": {columns}, "types": {types}, "rows": ['.encode())

    def _write(self, batch: Any) -> None:
        rows = [json.dumps([plain(cell) for cell in row], ensure_ascii=False) for row in _rows(batch)]
        self._file.write(((", " if self.rows else "") + ", ".join(rows)).encode(errors="replace"))

    def _end(self) -> None:
        self._file.write(f'], "row_count": {self.rows}, "truncated": {json.dumps(self.truncated)}}}\n'.encode())


class CsvWriter(ResultWriter):
    """Comma separated, with a header. Null is an empty field, lists and structs are JSON."""

    media_type = "text/csv; charset=utf-8"

    def _begin(self) -> None:
        self._write_rows([self._schema.names])

    def _write(self, batch: Any) -> None:
        self._write_rows([[_csv_cell(cell) for cell in row] for row in _rows(batch)])

    def _write_rows(self, rows: list[list[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        self._file.write(text.getvalue().encode(errors="replace"))

    def _end(self) -> None:
        pass


WRITERS: dict[str, Callable[[BinaryIO, Any], ResultWriter]] = {"arrow": ArrowWriter, "json": JsonWriter, "csv": CsvWriter}


def _rows(batch: Any) -> Any:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def plain(cell: Any) -> Any:
    """A value in JSON's types: times and intervals as ISO text, bytes as base64, NaN and infinities as text."""
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        if math.isfinite(cell):
            return cell
        return "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"
    if isinstance(cell, Decimal):
        return int(cell) if cell == cell.to_integral_value() and cast(int, cell.as_tuple().exponent) >= 0 else float(cell)
    if isinstance(cell, pa.MonthDayNano):
        return f"P{cell.months}M{cell.days}DT{cell.nanoseconds / 1e9:g}S"
    if isinstance(cell, list | tuple):
        return [plain(item) for item in cast("list[Any]", cell)]
    if isinstance(cell, dict):
        return {str(key): plain(value) for key, value in cast("dict[object, object]", cell).items()}
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if isinstance(cell, datetime | date | time):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    return str(cell)


def _csv_cell(cell: Any) -> Any:
    value = plain(cell)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
