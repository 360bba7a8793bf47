"""A generated store with its facts folded, and how long both took. Made once where it may be kept."""

import hashlib
import json
import time
from pathlib import Path
from typing import NamedTuple

import duckdb

from benchmarks import generated_store
from turnlens.queries import folding, readonly, schema, settling

_QUERIES = Path(schema.__file__).parent


class Filled(NamedTuple):
    """``fold_seconds``: how long the facts took."""

    path: Path
    spans: int
    bytes: int
    generate_seconds: float
    fold_seconds: float


def filled(folder: Path, spans: int) -> Filled:
    """The store of about that many spans in a folder, made where it is not there yet."""
    path = folder / f"spans-{spans}-{_digest()}.duckdb"
    noted = path.with_suffix(".json")
    if path.exists() and noted.exists():
        return Filled(path, *json.loads(noted.read_text()))
    begun = time.perf_counter()
    stored = generated_store.generate(path, spans)
    generated = time.perf_counter() - begun
    folded = _fold_seconds(path)
    made = Filled(path, stored, path.stat().st_size, generated, folded)
    noted.write_text(json.dumps(made[1:]))
    return made


def _fold_seconds(path: Path) -> float:
    """Bring the facts of all turns up to date, and settle them, as a collector does that finds spans without them."""
    connection = duckdb.connect(str(path), config={**readonly.CLOSED_CONFIGURATION, "memory_limit": "4GB"})
    try:
        begun = time.perf_counter()
        folding.fold_all(connection)
        settling.settle_all(connection)
        connection.execute("checkpoint")
        return time.perf_counter() - begun
    finally:
        connection.close()


def _digest() -> str:
    """Of what makes such a store, in short: one of other tables, other facts or other traffic is not used again."""
    sources = [Path(generated_store.__file__), Path(folding.__file__), Path(settling.__file__)]
    for folder in (Path(__file__).with_name("generated"), *(_QUERIES / name for name in ("tables", "views", "facts"))):
        sources += sorted(folder.glob("*.sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:8]
