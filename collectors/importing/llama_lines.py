"""Lines of llama-server's log as events.

What is matched is the text behind the function's name, which changes from release to release. In front may stand a router's
child (``[57130] ``), journald's fields, or nothing. The time is minutes, seconds, milliseconds and microseconds since the
server's start. Older releases write ``sim`` for ``f_sim``.
"""

import re
from datetime import datetime
from typing import NamedTuple


class Event(NamedTuple):
    """One line. ``at_us`` counts from the server's start, None where the line has no time; ``wall_ns`` is journald's.
    ``child`` is the process of a router's child, '' without a router. ``values`` are what the line says, by kind."""

    kind: str
    at_us: int | None
    wall_ns: int | None
    slot: int
    task: int
    values: tuple[float, ...] = ()
    child: str = ""


_HEAD = re.compile(
    r"(?:(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)) \S{1,80} [^:]{1,80}: )?"
    r"(?:\w{3} [ \d]\d \d\d:\d\d:\d\d \S{1,80} [^:]{1,80}: )?"
    r"(?:\[(?P<child>\d{1,7})\] )?"
    r"(?:(\d{1,7})\.(\d\d)\.(\d{3})\.(\d{3}) [A-Z] )?"
    r"(?P<rest>(?:slot|srv|que|cmn|main|llama_server|print_info)\b.*)"
)
_SLOT = re.compile(r"slot +[^:|]{1,40}: id +(\d{1,6}) \| task +(-?\d{1,12}) \| +(.*)")
_SERVER = re.compile(r"(?:(?:srv|que|cmn|main) +)?[^:|]{1,40}: +(.*)")
_N = r"(\d{1,12})"
_F = r"(-?\d{1,12}(?:\.\d{1,9})?)"
_MS = r"(\d{1,12}(?:\.\d{1,9})?)"

# By the first word of the text: what it must be, and which kind of event that is.
_OF_SLOTS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
_OF_SERVER: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def _say(where: dict[str, list[tuple[str, re.Pattern[str]]]], kind: str, pattern: str) -> None:
    where.setdefault(pattern.split(" ", 1)[0].replace("\\", ""), []).append((kind, re.compile(pattern)))


_say(_OF_SLOTS, "similar", rf"selected slot by LCP similarity, f?_?sim_best = {_F} \(> {_F} thold\), f_keep = {_F}")
_say(_OF_SLOTS, "least_recent", rf"selected slot by LRU, t_last = {_F}")
_say(_OF_SLOTS, "compared", rf"- checking sim = {_F} \({_N}/{_N}\)")
_say(_OF_SLOTS, "empty", r"- skipping, slot is empty")
_say(_OF_SLOTS, "launched", rf"processing task(?:, is_child = {_N})?")
_say(_OF_SLOTS, "prompt", rf"new prompt, n_ctx_slot = {_N}, n_keep = -?\d+, (?:task\.n_tokens|n_prompt_tokens) = {_N}")
_say(_OF_SLOTS, "cached", rf"cached n_tokens = {_N}, memory_seq_rm \[{_N}, end\)")
_say(_OF_SLOTS, "not_truncated", r"failed to truncate tokens")
_say(_OF_SLOTS, "prompt_timing", rf"prompt eval time = +{_MS} ms / +{_N} tokens")
_say(_OF_SLOTS, "eval_timing", rf"eval time = +{_MS} ms / +{_N} tokens")
_say(_OF_SLOTS, "released", rf"stop processing: n_tokens = {_N}, truncated = {_N}")
_say(_OF_SLOTS, "released", rf"stop processing: n_past = {_N}, truncated = {_N}")
_say(_OF_SLOTS, "checkpoint_restored", rf"restored context checkpoint \(pos_min = -?\d+, pos_max = -?\d+, n_tokens = {_N}")
_say(
    _OF_SLOTS,
    "checkpoint_created",
    rf"created context checkpoint {_N} of {_N} \(pos_min = -?\d+, pos_max = -?\d+, n_tokens = {_N}",
)
_say(_OF_SLOTS, "checkpoint_erased", rf"erased (?:invalidated|old) context checkpoint \(.*?n_tokens = {_N}(?:, n_swa = {_N})?")
_say(_OF_SLOTS, "reprocessed", r"forcing full prompt re-processing due to lack of cache data")
_say(_OF_SLOTS, "saving_idle", r"saving idle slot to prompt cache")
_say(_OF_SLOTS, "cleared", rf"clearing prompt with {_N} tokens")
_say(_OF_SLOTS, "purged", rf"purging slot .*?with {_N} tokens")
_say(_OF_SLOTS, "shifted", rf"slot context shift, n_keep = {_N}, n_left = {_N}, n_discard = {_N}")
_say(_OF_SLOTS, "chunk_reused", rf"reusing chunk with size {_N}, shifting KV cache \[{_N}, {_N}\) -> \[{_N}, {_N}\)")

_say(_OF_SERVER, "saved", rf"- saving prompt with length {_N}, total state size = {_F} MiB")
_say(_OF_SERVER, "looking", rf"- looking for better prompt, base f_keep = {_F}, f?_?sim = {_F}")
_say(_OF_SERVER, "candidate", rf"- prompt with length +{_N}, lcp = +{_N}, f_keep = {_F}, f?_?sim = {_F}")
_say(_OF_SERVER, "found", rf"- found better prompt with f_keep = {_F}, f?_?sim = {_F}")
_say(_OF_SERVER, "dropped_oldest", rf"- making room for prompt cache entry, removing oldest entry \(size = {_F} MiB\)")
_say(_OF_SERVER, "dropped_obsolete", rf"- removing obsolete cached prompt with length {_N}")
_say(_OF_SERVER, "updated", rf"prompt cache update took {_F} ms")
_say(_OF_SERVER, "cancelled", rf"cancel task, id_task = {_N}")
_say(_OF_SERVER, "deferred", rf"no slot is available, defer task, id_task = {_N}")
_say(_OF_SERVER, "refused", rf"task id = {_N}, error: request \({_N} tokens\) exceeds")
_say(_OF_SERVER, "slots", rf"initializing, n_slots = {_N}, n_ctx_slot = {_N}")
_say(_OF_SERVER, "slots", rf"initializing slots, n_slots = {_N}")
_say(_OF_SERVER, "cache_limit", rf"prompt cache is enabled, size limit: {_N} MiB")
_say(_OF_SERVER, "cache_off", r"prompt cache is disabled")
_say(_OF_SERVER, "window", rf"n_swa += {_N}")
_say(_OF_SERVER, "verbosity", rf"verbosity = {_N}")
_say(_OF_SERVER, "verbosity", rf"common_params_print_info: verbosity = {_N}")
_say(_OF_SERVER, "began", r"initializing \.\.\.")

# Kinds that only a log of level 4 has.
DETAILED = frozenset({"compared", "empty", "prompt", "cached", "looking", "candidate", "found", "saved", "updated"})


def parse(line: str) -> Event | None:
    """The event that a line tells of; None for a line that tells of none, whoever wrote it."""
    head = _HEAD.match(line)
    if head is None:
        return None
    iso, child, minutes, seconds, millis, micros, rest = head.groups()
    if rest.startswith("slot"):
        said = _SLOT.match(rest)
        if said is None:
            return None
        slot, task, text = said.groups()
        table = _OF_SLOTS
    else:
        said = _SERVER.match(rest)
        if said is None:
            return None
        slot, task, text = 0, -1, said[1]
        table = _OF_SERVER
    for kind, pattern in table.get(text.partition(" ")[0], ()):
        found = pattern.match(text)
        if found is not None:
            at = None if minutes is None else ((int(minutes) * 60 + int(seconds)) * 1_000 + int(millis)) * 1_000 + int(micros)
            values = tuple(float(value) for value in found.groups() if value is not None)
            return Event(kind, at, _wall(iso), int(slot), int(task), values, child or "")
    return None


def _wall(iso: str | None) -> int | None:
    if iso is None:
        return None
    try:
        at = round(datetime.fromisoformat(iso).timestamp() * 1e6) * 1_000
    except (ValueError, OverflowError):
        return None
    return at if 0 < at < 1 << 62 else None
