"""Ask a Turnlens store: SQL views in files, and one call that opens a store wherever it is.

>>> from turnlens.queries import connect
>>> store = connect("turnlens.duckdb")          # a path, or the URL of a running collector
>>> store.query("select turn_id, verdict, main_cause from turns").to_pandas()
"""

from turnlens.queries.explain import explain
from turnlens.queries.store import Store, connect

__all__ = ["Store", "connect", "explain"]
