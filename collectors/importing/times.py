"""Times as logs and records write them, as wall ns."""

import re
from datetime import UTC, datetime

_ISO = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)")
_VLLM = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d:\d\d:\d\d)\b")
_HEAD = 200
_DAY_NS = 86_400 * 10**9


def wall_ns(value: object) -> int | None:
    """A time as wall ns: ISO 8601 (UTC where it names no zone), or a number since 1970, of which the size says the unit. None
    for what is no time between 1971 and 2116."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        at = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1_000
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1 << 62:
        unit = next((unit for unit, most in ((10**9, 5e9), (10**6, 5e12), (10**3, 5e15)) if value < most), 1)
        # A float has microseconds at most.
        at = round(value * unit / 1_000) * 1_000 if isinstance(value, float) else value * unit
    else:
        return None
    return at if 31_536_000 * 10**9 < at < 1 << 62 else None


def time_of(line: str, by_ns: int) -> int | None:
    """The time at the head of a line of a log that was written by ``by_ns`` (a day is allowed for zones): ISO 8601, or vLLM's,
    which has no year: the latest. UTC where it names no zone; None where there is none, or a later one."""
    head = line[:_HEAD]
    iso, vllm = _ISO.search(head), _VLLM.search(head)
    # What comes first is the log's; behind it stands what anybody may have written.
    if vllm is None or (iso is not None and iso.start() < vllm.start()):
        at = None if iso is None else wall_ns(iso[1].replace(",", "."))
        return at if at is not None and at <= by_ns + _DAY_NS else None
    year = datetime.fromtimestamp(by_ns / 1e9, UTC).year
    # Next year's first day may have begun elsewhere; the 29th of February may be long ago.
    times = [wall_ns(f"{each}-{vllm[1]}-{vllm[2]}T{vllm[3]}") for each in (year + 1, year, year - 1, year - 4)]
    return next((at for at in times if at is not None and at <= by_ns + _DAY_NS), None)
