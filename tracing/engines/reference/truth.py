"""What really happened to each turn, kept by the engine itself, token by token and without the recorder.

A test compares it with the recorder's ledger. Therefore nothing here is shared with ``turnlens.tracing.ledger``: a prompt is an
array with one byte a position, not a list of intervals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

NOTHING, HIT, RESTORED, COMPUTED = range(4)
SOURCES = ("hit", "restored", "recomputed", "new", "unobserved")
_NAMES = {NOTHING: "unobserved", HIT: "hit", RESTORED: "restored"}


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a prefix key cannot be found on the device: ``cause`` as ``class.detail``, ``key`` of the snapshot concerned, ``by``
    the request that needed the room (or that was to publish it), and when [ns]."""

    cause: str
    key: bytes
    by: str | None
    at_ns: int


@dataclass(frozen=True, slots=True)
class TurnTruth:
    """One turn as the engine served it. Counts are tokens, times nanoseconds; ``segments`` are (start, end, source) with the
    sources of the model. S is looked up at the first admission: a turn that was never admitted has none.

    As of the admission that the coverage stands on, ``found_tokens`` is the prefix that was used from the device (of a prompt
    found whole all of it, where the hit leaves out its last token), ``local_tokens`` what could have been used there, and
    ``missing`` tells why it was no longer; None where it held all that had been seen."""

    request_id: str
    conversation_id: str | None
    prompt_tokens: int
    output_tokens: int
    segments: tuple[tuple[int, int, str], ...]
    hit: int
    restored: int
    computed: int
    recomputed: int | None
    new: int | None
    unobserved: int
    seen: int | None
    work_hit: int
    work_restored: int
    work_computed: int
    self_recovered: int
    found_tokens: int
    local_tokens: int
    attempts: int
    retries: int
    status: str
    complete: bool
    verdict: str
    missing: Loss | None
    restore_faults: tuple[str, ...]
    arrived_ns: int
    frontend_ns: int
    queue_ns: int | None
    ttft_ns: int | None
    total_ns: int


@dataclass(slots=True)
class TurnBook:
    """The open account of one turn. ``held`` is the running attempt's prompt, ``own`` what earlier attempts held."""

    prompt: int
    held: bytearray
    own: bytearray
    coverage: bytes | None = None
    seen: int = 0
    reached: int = 0
    attempts: int = 0
    retries: int = 0
    work: dict[int, int] = field(default_factory=lambda: {HIT: 0, RESTORED: 0, COMPUTED: 0})
    self_recovered: int = 0
    found_tokens: int = 0
    local_tokens: int = 0
    missing: Loss | None = None

    @classmethod
    def of(cls, prompt: int) -> "TurnBook":
        return cls(prompt, bytearray(prompt), bytearray(prompt))

    def admitted(self) -> None:
        """A new attempt."""
        self.attempts += 1
        self.held = bytearray(self.prompt)

    def consumed(self, start: int, device_end: int, restored_end: int) -> None:
        """The attempt's first step starts at ``start``: what lies before it was used, from the device and then restored.

        What this turn itself had before proves nothing about others: it is left out of S."""
        device_end, restored_end = min(device_end, start, self.prompt), min(restored_end, start, self.prompt)
        for at, end, code in runs_of(self.own[:device_end]):
            if code:  # its own from before: no new hit
                self.held[at:end] = self.own[at:end]
                self.self_recovered += end - at
            else:
                self.held[at:end] = bytes([HIT]) * (end - at)
                self.work[HIT] += end - at
                self.reached = max(self.reached, end)
        if restored_end > device_end:
            self.held[device_end:restored_end] = bytes([RESTORED]) * (restored_end - device_end)
            self.work[RESTORED] += restored_end - device_end
            foreign = self.own.rfind(NOTHING, device_end, restored_end)
            self.reached = max(self.reached, foreign + 1)

    def computed(self, start: int, end: int) -> None:
        """The model ran these positions, as far as they are the prompt's."""
        start, end = min(start, self.prompt), min(end, self.prompt)
        self.held[start:end] = bytes([COMPUTED]) * (end - start)
        self.work[COMPUTED] += end - start

    def prompt_done(self) -> None:
        """The first token came: the coverage is this attempt's."""
        if self.coverage is None:
            self.coverage = bytes(self.held)

    def preempted(self) -> None:
        for at, end, code in runs_of(self.held):
            if code:
                self.own[at:end] = self.held[at:end]

    def segments(self) -> tuple[tuple[int, int, str], ...]:
        """Runs of one source over the whole prompt; computed positions are cut at S."""
        found: list[tuple[int, int, str]] = []
        for at, end, code in runs_of(self.final()):
            if code != COMPUTED:
                found.append((at, end, _NAMES[code]))
            else:
                cut = min(max(at, self.seen_tokens), end)
                found += [(a, b, name) for a, b, name in ((at, cut, "recomputed"), (cut, end, "new")) if a < b]
        return tuple(found)

    def final(self) -> bytes:
        """The coverage, or the last attempt's where no first token came."""
        return self.coverage if self.coverage is not None else bytes(self.held)

    @property
    def seen_tokens(self) -> int:
        """S [tokens]: what was known at the first admission, or proved by what was used."""
        return max(self.seen, self.reached)


def runs_of(codes: bytes | bytearray) -> Iterator[tuple[int, int, int]]:
    """Runs of equal codes as (start, end, code). Without a step a position: prompts have 100,000 of them."""
    at = 0
    while at < len(codes):
        rest = codes[at:]
        end = at + len(rest) - len(rest.lstrip(rest[:1]))
        yield at, end, codes[at]
        at = end


def verdict(tokens: Mapping[str, int], seen: int, unit: int = 1) -> str:
    """The verdict of the model over tokens by source within S, ties to the worse. ``unit`` is what prefixes match in [tokens].
    What is restored past S had been left by this turn itself."""
    if tokens["unobserved"]:
        return "incomplete"
    if seen < unit:
        return "cold"
    restored = max(0, min(tokens["restored"], seen - tokens["hit"]))
    if tokens["recomputed"] >= max(tokens["hit"], restored):
        return "recomputed"
    return "restored" if restored >= tokens["hit"] else "hit"
