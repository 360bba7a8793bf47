"""What the engine said of a turn when it began, and making it usable on the draining thread."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index as whole_number

from turnlens.tracing import messages
from turnlens.tracing.keys import Message, ReusePoints
from turnlens.tracing.spans import Value


@dataclass(slots=True)
class Begin:
    """As the engine gave it: nothing in it has been looked at until :meth:`check`."""

    at_ns: int
    prompt_tokens: int | None
    conversation_id: str | None
    session: str | None
    points: ReusePoints | None
    arrived_ns: int | None
    cache_disabled: str | None
    facts: dict[str, Value]  # attributes under their keys on the wire
    messages: Sequence[Message] = ()
    basis: str | None = None  # what the prefix keys are of, where not of all that was seen
    identity: str | None = None  # what makes it this turn and no other, where ids follow from content
    ends: bool = True  # whether it is known when it ended
    waits: bool = True  # whether it is known how long it waited for its admission

    @property
    def start_ns(self) -> int:
        """The turn's beginning: its arrival at the server, where that is known."""
        return self.at_ns if self.arrived_ns is None else min(self.arrived_ns, self.at_ns)

    def take_digests(self, digest: Callable[[str | bytes], str]) -> None:
        """Make the messages and the namespace into attributes, and let go of what they say."""
        namespace = self.facts.pop("turnlens.namespace", None)
        if namespace is not None:
            self.facts["turnlens.namespace"] = digest(str(namespace))
        given, self.messages = self.messages, ()
        if given:
            self.facts = {"turnlens.message_count": len(given)} | self.facts | messages.told(given, digest)

    def check(self) -> list[str]:
        """Make what the engine said usable. Returns the flaws of what was not."""
        flaws: list[str] = []
        self.at_ns, _ = wall_ns(self.at_ns)  # the drain has said so where it is none
        try:
            self.prompt_tokens = None if self.prompt_tokens is None else whole_number(self.prompt_tokens)
        except (TypeError, ValueError):
            self.prompt_tokens = None
            flaws.append("bad_prompt_tokens")
        try:
            self.arrived_ns = None if self.arrived_ns is None else int(self.arrived_ns)
        except (TypeError, ValueError, OverflowError):
            self.arrived_ns = None
            flaws.append("bad_arrived_ns")
        try:
            if self.points is not None:
                self.points.count(1 << 40)
        except (TypeError, ValueError):
            self.points = None
            flaws.append("bad_prefix")
        if self.basis not in ("engine", "none"):
            self.basis = None
        return flaws


def wall_ns(given: object) -> tuple[int, Exception | None]:
    """A wall time as the engine gave it; the present, and the error, where it gave none that can be one."""
    try:
        return int(given), None  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    except (TypeError, ValueError, OverflowError) as error:
        return time.time_ns(), error
