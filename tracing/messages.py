"""Digests of the messages of a prompt: of each as it is, and of what is left of it without what often changes by itself.

A prompt that does not continue its conversation differs in some message. Where two messages differ and are the same without
their dates and times, the clock changed the prompt; where the earlier one is the later one once its thinking is left out, the
client or the template left it out. Only digests leave the process.
"""

import re
from collections.abc import Callable, Sequence
from operator import index as whole_number

from turnlens.tracing.keys import Message
from turnlens.tracing.spans import Value

MAX_MESSAGES = 1_024  # the first ones: a prompt that changed is compared from its beginning
Digest = Callable[[str | bytes], str]

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_CLOCK = (
    r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:[ ]?(?:[ap]m\b|[ap]\.m\.))?(?:Z\b|[ ]?(?:utc|gmt)\b|[ ]?[+-]\d{2}:?\d{2}\b)?"
)
# Every repetition is bounded: what an engine's clients send decides how long this takes.
_TIME = re.compile(
    rf"""
    \b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b          # Monday, Mon
    | \b{_MONTH}[ ]{_DAY}(?:,?[ ]\d{{4}})?\b                                     # November 30th, 2026
    | \b{_DAY}[ ]{_MONTH}(?:,?[ ]\d{{4}})?\b                                     # 30 Nov 2026
    | \b\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:T{_CLOCK}|\b)                      # 2026-11-30, 2026-11-30T10:02:33Z
    | \b\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})\b                        # 30.11.2026
    | \b{_CLOCK}                                                                 # 10:02:33.5 PM
    | \b1\d{{9}}(?:\d{{3}}|\d{{6}}|\d{{9}})?\b                                   # seconds, ms, us or ns since 1970
    """,
    re.IGNORECASE | re.VERBOSE,
)
_THINKING = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"))


def told(messages: Sequence[Message], digest: Digest) -> dict[str, Value]:
    """The messages as attributes of their turn's span. Raises whatever nonsense raises."""
    contents, ends, roles = zip(*messages[:MAX_MESSAGES], strict=True)
    return {
        "turnlens.messages.digest": [digest(content) for content in contents],
        "turnlens.messages.end_tokens": [0 if end is None else whole_number(end) for end in ends],
        "turnlens.messages.role": ["" if role is None else str(role) for role in roles],
        "turnlens.messages.untimed": _of_others(contents, without_times, digest),
        "turnlens.messages.unthought": _of_others(contents, without_thinking, digest),
    }


def _of_others(contents: Sequence[str | bytes], without: Callable[[str], str], digest: Digest) -> list[str] | None:
    """Digests of the contents that are not the same without something, '' for the others; None where all are."""
    found = ["" if (left := without(text)) == text else digest(left) for text in map(_text, contents)]
    return found if any(found) else None


def _text(content: str | bytes) -> str:
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


def without_times(text: str) -> str:
    """The text with a mark in the place of each date, time of day and weekday."""
    return _TIME.sub("\0", text)


def without_thinking(text: str) -> str:
    """The text without its blocks of thinking and the white space that follows them. A block that is not closed stays."""
    for begin, end in _THINKING:
        parts: list[str] = []
        at = 0
        while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start)) >= 0:
            parts.append(text[at:start])
            at = stop + len(end)
            while at < len(text) and text[at].isspace():
                at += 1
        text = "".join([*parts, text[at:]])
    return text
