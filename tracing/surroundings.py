"""What was free around an admission or an eviction, from the engine's samples."""

from turnlens.tracing.spans import Value

# What was free some seconds ago says little about now.
_SAMPLE_HOLDS_NS = 5_000_000_000


class Surroundings:
    """The latest samples, beside how many snapshot slots and KV tokens the engine has in all."""

    def __init__(self, total_slots: int | None, total_tokens: int | None) -> None:
        self._totals: dict[str, Value] = {"turnlens.total_slots": total_slots, "turnlens.total_tokens": total_tokens}
        self._values: dict[str, tuple[int, int]] = {}  # by key: when, and what

    def sampled(self, at_ns: int, values: dict[str, int]) -> None:
        """Take a sample; what it leaves out keeps its own age."""
        for key, value in values.items():
            self._values[key] = (at_ns, value)

    def attributes(self, at_ns: int) -> dict[str, Value]:
        """As span attributes, at a moment [wall ns]. Absent where no sample of the last five seconds said."""
        facts = dict(self._totals)
        for key, (when, value) in self._values.items():
            if at_ns - when <= _SAMPLE_HOLDS_NS:
                facts[f"turnlens.{key}"] = value
        return facts
