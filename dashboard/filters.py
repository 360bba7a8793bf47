"""The filters of all pages: which turns are looked at. They stand in the sidebar and in the address, and go along from page to
page."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from turnlens.dashboard import address, wording
from turnlens.queries import frames, ranges
from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range
from turnlens.queries.store import ServerStore, Store

CHOICES = 500  # values that are offered of each filter, of conversations and runs the latest; another one can be typed
# What engines share cannot be told apart by these.
NARROWER = {"replica": "Replica", "model": "Model", "tenant": "Tenant", "conversation": "Conversation"}
_LABELS = {"engine": "Engine", "run": "Run", **NARROWER, "verdict": "Verdict", "cause": "Cause"}
_LISTED = ("verdict", "cause")
_VOID_HELP = {
    False: "This page is about what all turns share: it is not narrowed by this.",
    True: "This page has no list of turns to be narrowed by this.",
}
_TIMES = {
    "15m": "the last 15 minutes",
    "1h": "the last hour",
    "6h": "the last 6 hours",
    "24h": "the last 24 hours",
    "7d": "the last 7 days",
}
_AUTO, _EVER, _BETWEEN = "auto", "all", "from ... to ..."
_QUICK_TURNS = 100_000
NAMES = ("last", "since", "until", *_LABELS)
# What another filter makes void: positions in lists, and the turn that was looked at.
_VOID = ("page", "conversations", "turn")


@dataclass(frozen=True, slots=True)
class Filters:
    """What was chosen. ``over`` is a range that macros take; ``verdict`` and ``cause`` narrow lists of turns. None means any.
    ``last_ns`` is when the last turn of the store arrived, None where there is none; ``automatic`` that nobody chose a time."""

    over: Range
    verdict: str | None
    cause: str | None
    last_ns: int | None
    automatic: bool

    @property
    def listed(self) -> dict[str, str | None]:
        """What narrows lists, as arguments of their macros."""
        return {"the_verdict": self.verdict, "the_cause": self.cause}


def choose(store: Store, *, listed: bool = False, shared: bool = False) -> Filters:
    """Draw the filters and return what is chosen. ``listed``: this page has lists that a verdict or a cause narrows.
    ``shared``: it is about what turns share, and only an engine, a run and times apply."""
    (facts,) = frames.rows(store, "range_facts")
    choices: dict[str, list[str]] = {name: [] for name in _LABELS}
    if facts["first_ns"] is not None:
        for row in _choices(store.where, store):
            choices[row["filter"]].append(row["value"])
    chosen: dict[str, str | None] = {}
    with st.sidebar.container(gap="small"):
        # One conversation is quickly found whenever it was.
        one = address.read("conversation") is not None and not shared
        since, until, automatic = _times(store, facts["first_ns"], facts["last_ns"], one)
        for name, label in _LABELS.items():
            void = (shared and name in NARROWER) or (name in _LISTED and not listed)
            chosen[name] = _box(name, label, choices[name], hidden=void and address.read(name) is None, void=void)
    over = Range(since_ns=since, until_ns=until, **{name: value for name, value in chosen.items() if name not in _LISTED})
    return Filters(
        over.shared if shared else over,
        chosen["verdict"] if listed else None,
        chosen["cause"] if listed else None,
        facts["last_ns"],
        automatic,
    )


def said(chosen: Filters) -> str:
    """What is set, in words; empty where nothing is."""
    over = chosen.over
    parts = [f"{_LABELS[name].lower()} {value}" for name in ("engine", "run", *NARROWER) if (value := getattr(over, name))]
    parts += [f"{_LABELS[name].lower()} {value}" for name in _LISTED if (value := getattr(chosen, name))]
    if over.since_ns is not None and not chosen.automatic:
        parts.append(f"from {wording.clock(over.since_ns, day=True)}")
    if over.until_ns is not None:
        parts.append(f"to {wording.clock(over.until_ns, day=True)}")
    return " · ".join(parts)


def key() -> str:
    """For the keys of tables: one of other rows is another table, and one of the same filters later, with new turns, is not."""
    return str(hash(tuple(address.read(name) for name in NAMES)))


def clear() -> None:
    """Take every filter out of the address."""
    address.write(**dict.fromkeys((*NAMES, *_VOID)))


def kept(**changes: str | None) -> dict[str, str]:
    """The filters, with changes, for a link to another page."""
    there = {name: address.read(name) for name in (*NAMES, "live", "start")}
    return {name: value for name, value in {**there, **changes}.items() if value}


def of_conversation(row: Mapping[str, Any]) -> dict[str, str | None]:
    """The filters that bring the turns of a row of a list of conversations: its id, and more where others have the same id."""
    narrower = ("engine", "replica", "run") if row["elsewhere"] else ()
    return {"conversation": row["conversation_id"], **{name: row[name] for name in narrower if row.get(name) is not None}}


# -- choices ----------------------------------------------------------------------------------------------------------------


@st.cache_data(ttl=60, max_entries=16, show_spinner=False)
def _choices(where: str, _store: Store) -> list[dict[str, str]]:
    # Asked by every page at every change: of a day of a million turns it takes a few tenths of a second.
    return frames.rows(_store, "filter_choices", most=CHOICES)


def _box(name: str, label: str, values: list[str], *, hidden: bool, void: bool) -> str | None:
    now = address.read(name)
    # With one value there is nothing to choose.
    if hidden or (now is None and len(values) < 2 and name != "conversation"):
        return None
    if now is not None and now not in values:
        values = [now, *values]
    key = f"filter-{name}"
    # Options are shown as plain text; only the label is Markdown, and that is ours.
    return st.selectbox(
        label,
        values,
        index=None,
        key=key,
        placeholder="any",
        on_change=address.follow(key, name, now, *_VOID),
        accept_new_options=name not in _LISTED,
        filter_mode="contains",
        disabled=void,
        help=_VOID_HELP[name in _LISTED] if void else None,
    )


# -- times ------------------------------------------------------------------------------------------------------------------


def _times(store: Store, first_ns: int | None, last_ns: int | None, one: bool) -> tuple[int | None, int | None, bool]:
    """From when to when, and whether nobody chose that. The address says ``last``, or ``since`` and ``until`` in UTC. A length
    of time ends now where a collector runs, else with the last turn. Where the address says nothing, or what cannot be meant,
    it is the longest up to the last turn that answers quickly; of ``one`` conversation all."""
    last = address.read("last")
    between = address.read("since") is not None or address.read("until") is not None
    automatic, end_ns = _automatic(store, last_ns, one)
    named = last == _EVER or _is_length(last)
    shown = _BETWEEN if between else last if named else _AUTO
    st.session_state["filter-time"] = shown
    own = [last] if named and last is not None and last not in (*_TIMES, _EVER) else []
    options: list[str] = [_AUTO, _EVER, *_TIMES, *own, _BETWEEN]
    if last is not None and not named and not between:
        st.warning("This length of time cannot be meant, and is left out.", icon=":material/warning:")
    st.selectbox(
        "Time",
        options,
        key="filter-time",
        format_func=lambda name: f"automatic: {_in_words(automatic)}" if name == _AUTO else _in_words(name),
        on_change=_time_changed(first_ns, last_ns),
        help=f"Automatic is the longest with at most {_QUICK_TURNS:,} turns, up to the last one; of one conversation all."
        + ("" if isinstance(store, ServerStore) else " No collector has this store open: all lengths end with its last turn."),
    )
    if between:
        with st.container(gap="small"):
            _moment("since", "From", first_ns)
            _moment("until", "To", last_ns)
        try:
            over = ranges.read(since=address.read("since"), until=address.read("until"))
        except QueryError as error:
            st.warning("These times cannot be meant, and are left out.", icon=":material/warning:")
            st.text(str(error))
        else:
            return over.since_ns, over.until_ns, False
    elif named and last is not None:
        now_ns = time.time_ns() if isinstance(store, ServerStore) else end_ns
        return _since(last, now_ns), None, False
    return _since(automatic, end_ns), None, True


def _is_length(text: str | None) -> bool:
    try:
        return text is not None and ranges.read(last=text).since_ns is not None
    except QueryError:
        return False


def _since(length: str, end_ns: int | None) -> int | None:
    return None if length == _EVER or end_ns is None else ranges.read(last=length, now_ns=end_ns).since_ns


def _automatic(store: Store, last_ns: int | None, one: bool) -> tuple[str, int | None]:
    """The length of time that answers quickly, and when it ends [ns]."""
    if last_ns is None:
        return _EVER, None
    lengths = frames.rows(store, "time_choices")
    quick = [str(row["length"]) for row in lengths if row["turns"] <= _QUICK_TURNS]
    return _EVER if one else quick[-1] if quick else str(lengths[0]["length"]), lengths[0]["end_ns"]


def _in_words(name: str) -> str:
    return _TIMES.get(name, name if name in (_EVER, _BETWEEN) else f"the last {name}")


def _time_changed(first_ns: int | None, last_ns: int | None) -> Callable[[], None]:
    def changed() -> None:
        chosen = st.session_state["filter-time"]
        between = chosen == _BETWEEN and first_ns is not None and last_ns is not None
        address.write(
            last=None if chosen in (_AUTO, _BETWEEN) else chosen,
            since=_iso(first_ns) if between and first_ns is not None else None,
            # A second on, so that the last turn is in it.
            until=_iso(last_ns + 1_000_000_000) if between and last_ns is not None else None,
            **dict.fromkeys(_VOID),
        )

    return changed


def _moment(name: str, label: str, default_ns: int | None) -> None:
    """A time that is shown and chosen in the viewer's zone, and stands in the address in UTC."""
    key = f"filter-{name}"
    try:
        at = datetime.fromisoformat(address.read(name) or "")
        at = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(viewers_zone())
    except (ValueError, OverflowError):
        at = datetime.fromtimestamp((default_ns or 0) / 1e9, viewers_zone())
    # The box has whole minutes; the address keeps what it says for as long as nobody chooses another minute.
    minute = at.replace(tzinfo=None, second=0, microsecond=0)
    shown = minute + timedelta(minutes=1) if name == "until" and at.replace(tzinfo=None) > minute else minute
    st.session_state[key] = shown

    def changed() -> None:
        given: datetime | None = st.session_state[key]
        if given == shown:
            return
        text = None if given is None else given.replace(tzinfo=viewers_zone()).astimezone(UTC)
        address.write(**{name: None if text is None else _text(text)}, **dict.fromkeys(_VOID))

    st.datetime_input(label, key=key, on_change=changed, format="YYYY-MM-DD", step=60)


def _iso(ns: int) -> str:
    return _text(datetime.fromtimestamp(ns // 1_000_000_000, UTC))


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"


def viewers_zone() -> tzinfo:
    """The zone of the browser; UTC where it does not say."""
    name = st.context.timezone
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


@contextmanager
def viewers_times() -> Generator[None]:
    """Say times in the viewer's zone."""
    with wording.in_zone(viewers_zone()):
        yield
