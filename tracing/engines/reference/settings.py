"""What a reference engine has and what its work costs. Defaults are measured figures, with their source beside them.

Nothing here is read from the machine it runs on: the engine spends virtual time only.
"""

from dataclasses import dataclass, field
from typing import Any

SLOTS = 48
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
class StoreConfig:
    """A persistent page store below a cache of blocks, after SparkCache's: spans that begin where a prompt begins and end on a
    grid of their own. It is offered whatever it has beyond the local prefix.

    Three things that such a store may do to the local cache are switched one by one. ``holds_pages``: what a finished request
    held stays taken until its capture has ended. ``drops_hashes``: pages that a capture has written are found locally no more.
    ``restores_whole_spans``: a span that is offered is loaded from its beginning, whatever of it is there."""

    grid_tokens: int = 2_048
    captures: bool = True  # False: restore-only
    min_span_tokens: int = 0  # a turn's end is captured when this much of it is not stored yet
    max_captures: int = 2  # at a time; past that a turn's end is not stored
    capture_tokens_per_second: float = 23_400.0  # SparkCache: 4,096 tokens in 164-185 ms, whole spans each time
    holds_pages: bool = True
    drops_hashes: bool = True
    restores_whole_spans: bool = True

    def __post_init__(self) -> None:
        for name in ("grid_tokens", "max_captures", "capture_tokens_per_second"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the engine has. A pool or a host tier is counted in KV tokens, slots in snapshots.

    With ``block_tokens`` it is a cache of blocks as vLLM's: prefixes match at multiples of a block, every complete block that
    was computed is there for others from the end of its step on, at no cost, and there are no slots. ``whole_messages`` makes
    each message of a prompt a block, whatever its length, and caches no answers: so traces of block hashes have it, where the
    ids of an answer's blocks come with the next prompt and a prompt's last block may be partly filled."""

    slots: int = SLOTS
    pool_tokens: int = 256_000
    max_running: int = 4  # requests admitted at a time, those that wait for a restore included
    chunk_tokens: int = 2_048  # prompt tokens of all requests in one step
    block_tokens: int = 0  # 0: snapshots at the ends of messages, in slots
    whole_messages: bool = False
    store: StoreConfig | None = None
    request_chunk_tokens: int = 2_048  # of these, of one request: what is left over lets short prompts pass by long ones
    min_span_tokens: int = 0  # a snapshot that would add fewer tokens than this is not taken
    capture_outputs: bool = True  # False: an answer is published when the next prompt brings it, as Flare seems to do
    max_captures: int = 4  # captures of finished turns at a time; past that a turn's end is not published
    host_tokens: int = 0  # 0: no host tier
    restore_failure_ratio: float = 0.0  # of restores, by the seed
    decode_burst_tokens: int = 16  # output tokens a stream may advance in one step while nothing else is to be done
    policy: str = "lru_leaf"  # one of policy.POLICIES
    replica: str = "0"
    model: str = "reference"
    run: str | None = None  # label of the experiment, for comparisons: every turn carries it
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        for name in ("slots", "pool_tokens", "max_running", "chunk_tokens", "request_chunk_tokens", "decode_burst_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("min_span_tokens", "max_captures", "host_tokens", "block_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative: {getattr(self, name)}")
        if not 0.0 <= self.restore_failure_ratio <= 1.0:
            raise ValueError(f"restore_failure_ratio must lie in [0, 1], not {self.restore_failure_ratio}")
        if self.block_tokens:
            self._check_blocks()
        elif self.whole_messages:
            raise ValueError("whole_messages makes blocks of messages: give block_tokens, the length of a full one")
        if self.store is not None and (not self.block_tokens or self.whole_messages or not self.capture_outputs):
            raise ValueError(
                "a page store stands below a cache of blocks on a grid, and stores answers: "
                "give block_tokens, neither whole_messages nor capture_outputs=False"
            )

    def _check_blocks(self) -> None:
        if self.pool_tokens < self.block_tokens:
            raise ValueError(f"a pool of {self.pool_tokens} tokens holds no block of {self.block_tokens}")
        meant = {"slots": self.slots != SLOTS, "min_span_tokens": self.min_span_tokens, "host_tokens": self.host_tokens}
        for name in (name for name, given in meant.items() if given):
            raise ValueError(
                f"{name} belongs to snapshots; a cache of blocks (block_tokens={self.block_tokens}) has no such thing"
            )

    @property
    def grain_tokens(self) -> int:
        """What KV is allocated in [tokens]."""
        return self.block_tokens or 1

    @property
    def unit_tokens(self) -> int:
        """What prefixes match in [tokens]. Snapshots and messages end where they end."""
        return 1 if self.whole_messages else self.grain_tokens

    def facts(self) -> dict[str, Any]:
        """What a recorder has to be told: ``Recorder(**config.facts(), wait_when_full=True, ...)``. Its
        attributes that are not arguments of the recorder become attributes of the resource."""
        facts: dict[str, Any] = {
            "engine": "reference",
            "replica": self.replica,
            "slots": self.slots,
            "pool_tokens": self.pool_tokens,
            "unit_tokens": self.unit_tokens,
            "policy": self.policy,
            "max_running": self.max_running,
            "min_span_tokens": self.min_span_tokens,
            "host_tokens": self.host_tokens,
            "source": "simulation",
        }
        if self.block_tokens:
            facts |= {"slots": None, "block_tokens": self.block_tokens}
        return facts


def engine_facts(config: EngineConfig) -> dict[str, Any]:
    """The same as :meth:`EngineConfig.facts`."""
    return config.facts()
