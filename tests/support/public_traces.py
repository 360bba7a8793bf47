"""Where the public traces are. They belong to others and are not committed: they lie beside the checkout, in
``../shared/data/traces``, or where ``TURNLENS_TRACES`` says."""

import os
from pathlib import Path

import pytest

TRACES = Path(os.environ.get("TURNLENS_TRACES") or Path(__file__).parents[3] / "shared" / "data" / "traces")
CONVERSATION = TRACES / "mooncake_conversation_trace.jsonl"
SYNTHETIC = TRACES / "mooncake_synthetic_trace.jsonl"
AGENTIC = TRACES / "agentic"

needs_traces = pytest.mark.skipif(
    not CONVERSATION.exists(), reason=f"the public traces are not in {TRACES}; TURNLENS_TRACES says where they are"
)
