"""Packages without type information, imported here once so that the rest of the code stays strictly checked.

``pyarrow`` ships no types of its own, and its stubs lag behind it; the stubs of protobuf hide ``google.rpc``, which comes with
the OTLP exporters.
"""

from importlib import import_module
from typing import Any

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
ipc: Any = import_module("pyarrow.ipc")
status_pb2: Any = import_module("google.rpc.status_pb2")
error_details_pb2: Any = import_module("google.rpc.error_details_pb2")

# Arrow's tables and readers, named where a signature is clearer with them.
Table = Any
