"""Record what an engine's prefix cache did for each turn, from the scheduler's own decisions.

>>> from turnlens.tracing import Recorder
>>> recorder = Recorder(engine="mine", unit_tokens=16)
>>> turn = recorder.turn("request-1", prompt_tokens=1000, prefix=[b"..."], prefix_at=16)

See :class:`Recorder` for the calls, and ``docs/conventions.md`` for the spans that come of them.
"""

from turnlens.tracing.attribution import Attribution
from turnlens.tracing.handles import Lease, Publish, Turn
from turnlens.tracing.recorder import Recorder

__all__ = ["Attribution", "Lease", "Publish", "Recorder", "Turn"]
