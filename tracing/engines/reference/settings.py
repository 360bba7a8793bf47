"""What a reference engine has and what its work costs. Defaults are measured figures, with their source beside them.

Nothing here is read from the machine it runs on: the engine spends virtual time only.
"""

from dataclasses import dataclass, field
from typing import Any

# Named ways in which a load from the host tier can go wrong, as a request may ask for them.
RESTORE_FAULTS = ("corrupt", "partial", "timeout")


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost model. Seconds, and tokens a second.

    Sources: *SparkCache* is ``sparkcache/calibration-numbers.csv`` and its prefill table (GB10 rings); *Flare* are its users'
    reports (``engines.md``). The report's 0.16 s and 5.5 ms a message are slopes of the whole time to the first token, so the
    frontend's share is taken out of both here and stands on its own.
    """

    prefill_tokens_per_second: float = 2_700.0  # SparkCache: 2,398-2,998 cold, 2,674-2,765 from 8K to 131K tokens
    step_seconds: float = 0.002  # scheduling and launch of one step
    decode_step_seconds: float = 0.018  # Flare: 45 tokens/s a stream with 4 authors, 43 with 8
    decode_stream_seconds: float = 0.0005  # what one more stream adds to a decode step
    frontend_seconds: float = 0.01
    frontend_message_seconds: float = 0.0025  # template and tokenization of one message of ~100 tokens
    publish_seconds: float = 0.155  # Flare: 0.16 s a message, cold, minus the frontend's share
    lookup_snapshot_seconds: float = 0.003  # Flare: 5.5 ms a message, warm, minus the frontend's share
    capture_seconds: float = 0.17  # SparkCache: asynchronous commit of 4,096 tokens 164-185 ms, four ranks
    restore_seconds: float = 0.03  # SparkCache: 51-58 ms for 6,144 tokens, of which this part does not grow
    restore_tokens_per_second: float = 150_000.0  # SparkCache: 106-194 K tokens/s
    restore_timeout_seconds: float = 2.0

    def __post_init__(self) -> None:
        for name in ("prefill_tokens_per_second", "restore_tokens_per_second", "step_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}: virtual time would stand still")
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative: {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the engine has. A pool or a host tier is counted in KV tokens, slots in snapshots."""

    slots: int = 48
    pool_tokens: int = 256_000
    max_running: int = 4  # requests admitted at a time, those that wait for a restore included
    chunk_tokens: int = 2_048  # prompt tokens of all requests in one step
    request_chunk_tokens: int = 2_048  # of these, of one request: what is left over lets short prompts pass by long ones
    min_span_tokens: int = 0  # a snapshot that would add fewer tokens than this is not taken
    max_captures: int = 4  # captures of finished turns at a time; past that a turn's end is not published
    host_tokens: int = 0  # 0: no host tier
    restore_failure_ratio: float = 0.0  # of restores, by the seed
    decode_burst_tokens: int = 16  # output tokens a stream may advance in one step while nothing else is to be done
    policy: str = "lru_leaf"
    replica: str = "0"
    model: str = "reference"
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        for name in ("slots", "pool_tokens", "max_running", "chunk_tokens", "request_chunk_tokens", "decode_burst_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("min_span_tokens", "max_captures", "host_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative: {getattr(self, name)}")
        if not 0.0 <= self.restore_failure_ratio <= 1.0:
            raise ValueError(f"restore_failure_ratio must lie in [0, 1], not {self.restore_failure_ratio}")

    def facts(self) -> dict[str, Any]:
        """What a recorder has to be told: ``Recorder(**config.facts(), wait_when_full=True, ...)``. Prefixes match at
        snapshots, wherever these are, so the unit is one token."""
        return {
            "engine": "reference",
            "replica": self.replica,
            "slots": self.slots,
            "pool_tokens": self.pool_tokens,
            "unit_tokens": 1,
            "policy": self.policy,
            "max_running": self.max_running,
            "min_span_tokens": self.min_span_tokens,
            "host_tokens": self.host_tokens,
        }


def engine_facts(config: EngineConfig) -> dict[str, Any]:
    """The same as :meth:`EngineConfig.facts`."""
    return config.facts()
