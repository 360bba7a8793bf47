"""What follows a file of each kind as it grows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from turnlens.collectors.importing import sglang, traffic
from turnlens.collectors.importing.exchange_files import exchange_on
from turnlens.collectors.importing.flare import LiveFlare
from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account
from turnlens.collectors.importing.llama_live import AnchorOf, LiveLlama
from turnlens.collectors.importing.recording import Origin
from turnlens.collectors.importing.sparkcache_live import LiveSparkCache
from turnlens.collectors.importing.traffic_live import LiveTraffic
from turnlens.collectors.importing.vllm import LiveVllm


class Live(Protocol):
    """Takes the lines of one log in their order."""

    @property
    def seed(self) -> str | None:
        """What the engine start is called that the next file goes on from, where a file does not say."""
        ...

    def take(self, text: str, number: int, /) -> None:
        """The next line."""
        ...

    def tick(self) -> None:
        """There are no more lines at present."""
        ...

    def close(self) -> None:
        """No more comes: send what there is."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known where following begins. ``anchor_of`` is of kinds whose clock begins with the server. ``kept`` keeps the
    time that is given first for a name, and asked with None says it. ``written_ns`` says when a line without a time was
    written, ``catching_up`` whether it was there already. ``seed`` names the start that the file goes on from; ``ranks`` is
    how many must hold a restored span."""

    origin: Origin
    account: Account
    anchor_of: AnchorOf
    kept: Callable[[str, int | None], int | None]
    written_ns: Callable[[], int]
    catching_up: Callable[[], bool]
    seed: str | None
    ranks: int

    def started_ns(self, first_ns: int) -> int:
        """When an engine start began of which times are wall times: with the first line that was ever read of it."""
        return self.kept("", first_ns) or first_ns


def _llama(begun: Begun) -> Live:
    return LiveLlama(begun.origin, begun.account, begun.anchor_of, begun.seed)


def _vllm(begun: Begun) -> Live:
    return LiveVllm(begun.origin, begun.account, begun.started_ns)


def _traffic(begun: Begun) -> Live:
    return LiveTraffic(begun.origin, begun.account, begun.started_ns, traffic.KIND, exchange_on)


def _sglang(begun: Begun) -> Live:
    return LiveTraffic(begun.origin, begun.account, begun.started_ns, sglang.KIND, sglang.sglang_exchange)


def _sparkcache(begun: Begun) -> Live:
    return LiveSparkCache(begun.origin, begun.account, begun.started_ns, begun.ranks)


def _flare(begun: Begun) -> Live:
    return LiveFlare(begun.origin, begun.account, begun.kept, begun.written_ns, begun.catching_up)


LIVE: dict[str, Callable[[Begun], Live]] = {
    "llama": _llama,
    "vllm": _vllm,
    "traffic": _traffic,
    "sglang": _sglang,
    "sparkcache": _sparkcache,
    "flare": _flare,
}
# How long a line can be; of the others MAX_LINE_BYTES.
MOST_BYTES = {"traffic": MAX_RECORD_BYTES, "sglang": MAX_RECORD_BYTES, "vllm": MAX_RECORD_BYTES}
