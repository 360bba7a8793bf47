"""Ask a Turnlens store: SQL views in files, one call that opens a store wherever it is, and every answer as a frame.

>>> from turnlens.queries import ask, connect
>>> store = connect("turnlens.duckdb")          # a path, or the URL of a running collector
>>> store.query("select turn_id, verdict, main_cause from turns").to_pandas()
>>> ask(store, "conversation_of", the_conversation="agent-3").to_pandas()
"""

from turnlens.queries.explain import explain
from turnlens.queries.frames import ask
from turnlens.queries.store import Store, connect

__all__ = ["Store", "ask", "connect", "explain"]
