"""Requests as the engine sees them: messages of known length, and the keys of the prefixes that end with them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from turnlens.tracing.engines.reference.settings import RESTORE_FAULTS


class Message(NamedTuple):
    """One speaker's text: ``name`` stands for the text (equal names are equal texts), and its length."""

    name: str
    tokens: int


class Point(NamedTuple):
    """A position [tokens] at which a snapshot can be taken, and the digest of everything before it."""

    end: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """One turn to be served. The prompt is ``messages``; the engine answers with ``output``.

    ``lease_seconds`` keeps the turn's KV after its end, ``abort_after_seconds`` counts from the arrival at the server, and
    ``restore_fault`` (of ``RESTORE_FAULTS``) breaks this request's first restore.
    """

    request_id: str
    messages: tuple[Message, ...]
    output: Message
    conversation_id: str | None = None
    tenant: str | None = None
    lease_seconds: float = 0.0
    cache_disabled: bool = False
    abort_after_seconds: float | None = None
    restore_fault: str | None = None

    def __post_init__(self) -> None:
        if not self.messages or any(message.tokens < 1 for message in (*self.messages, self.output)):
            raise ValueError(f"request {self.request_id}: a prompt needs messages, and a message at least one token")
        if self.restore_fault is not None and self.restore_fault not in RESTORE_FAULTS:
            raise ValueError(f"request {self.request_id}: restore_fault {self.restore_fault!r} is none of {RESTORE_FAULTS}")

    @property
    def prompt_tokens(self) -> int:
        return sum(message.tokens for message in self.messages)


@lru_cache(maxsize=65_536)
def _extend(above: bytes, message: Message) -> bytes:
    return hashlib.blake2b(f"{message.name}\0{message.tokens}".encode(), key=above, digest_size=16).digest()


def points_of(messages: Iterable[Message]) -> tuple[Point, ...]:
    """The reuse points of a text: the end of each message, with the digest of the whole prefix up to there."""
    key, end = b"", 0
    found: list[Point] = []
    for message in messages:
        key = _extend(key, message)
        end += message.tokens
        found.append(Point(end, key))
    return tuple(found)


def block_points_of(messages: Iterable[Message], block_tokens: int) -> tuple[Point, ...]:
    """The reuse points of a text in blocks: the end of each complete one, with the digest of the whole prefix up to there."""
    above, start = b"", 0
    found: list[Point] = []
    for message in messages:
        end = start + message.tokens
        first = start - start % block_tokens + block_tokens
        found += [Point(cut, _cut(above, message, cut - start)) for cut in range(first, end + 1, block_tokens)]
        above, start = _extend(above, message), end
    return tuple(found)


def _cut(above: bytes, message: Message, at: int) -> bytes:
    """The digest of a prefix that ends within a message, ``at`` tokens past its beginning."""
    return hashlib.blake2b(f"{message.name}\0{message.tokens}\0{at}".encode(), key=above, digest_size=16).digest()
