"""What the reports on Flare say of the engine, and how it is set up here. Shared by the scenarios of that report.

Source of the figures: ``data/reports`` and the users' reports that came with them (the figures are copied where they are used).
"""

from turnlens.tracing.engines.reference.scenarios.base import Parameter
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig

# Start-up line: "Allocate cache.  21.2 GiB · 25258240 KV tokens · 128 shared snapshot slots · limited by memory".
POOL_TOKENS = 25_258_240
SLOTS = 128
# "Slots were active * 8": 16 requests at a time with 128 slots, 4 with 32. A later release let memory bound them: 1,991.
SLOTS_A_REQUEST = 8
LATER_SLOTS = 1_991

COSTS = Costs(frontend_seconds=0.36)

# How ``flare`` reads "reuse happens at speaker changes; each change takes one slot".
ANSWERS = Parameter(
    "an answer becomes reusable",
    "with the next prompt",
    "",
    "only then does the speaker change after it; not reported. Published at once, the tables say the same (docs/scenarios.md)",
)

# What nobody measured apart. The rest of ``Costs`` has its source beside it.
COST_PARAMETERS = (
    Parameter(
        "frontend_seconds",
        COSTS.frontend_seconds,
        "s a request",
        "what is left of the warm 0.4 s at 4 messages; the same remains of the cold times beyond prefill and publishes",
    ),
    Parameter(
        "frontend_message_seconds",
        COSTS.frontend_message_seconds,
        "s a message",
        "template and tokenization: a part of both slopes, how large is not reported; about half of the warm one is taken",
    ),
    Parameter(
        "publish_seconds",
        COSTS.publish_seconds,
        "s a snapshot",
        "cold slope 0.16 s a message, less what the frontend and the rest have of it",
    ),
    Parameter(
        "lookup_snapshot_seconds",
        COSTS.lookup_snapshot_seconds,
        "s a snapshot",
        "warm slope 5.5 ms a message, less the frontend's part",
    ),
    Parameter(
        "prefill_tokens_per_second",
        COSTS.prefill_tokens_per_second,
        "tokens/s",
        "measured on the same kind of machines (SparkCache)",
    ),
)
DECODE_PARAMETERS = (
    Parameter(
        "decode_step_seconds",
        COSTS.decode_step_seconds,
        "s a token",
        "45 tokens/s are reported with 4 authors; so at most this",
    ),
    Parameter(
        "decode_stream_seconds",
        COSTS.decode_stream_seconds,
        "s a token",
        "what one more stream adds; from the 43 tokens/s with 8 authors, and small",
    ),
    Parameter("step_seconds", COSTS.step_seconds, "s a step", "scheduling and launch; not reported, and small"),
)


def flare(
    run: str, *, slots: int = SLOTS, pool_tokens: int = POOL_TOKENS, active: int = SLOTS // SLOTS_A_REQUEST
) -> EngineConfig:
    """Flare as its users describe it: snapshots at speaker changes only, one slot each; least recently used leaf first."""
    return EngineConfig(slots=slots, pool_tokens=pool_tokens, max_running=active, capture_outputs=False, run=run, costs=COSTS)
