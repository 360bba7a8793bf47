"""Prompts as chains of messages: where earlier ones ended, which conversation one continues, in bounded memory.

Servers that report no prefix keys still say how long each prompt was. A prompt that begins with all messages of an earlier one
begins with all its tokens, so the digest of a chain of messages is a prefix key at the position at which that prompt ended, and
with the answer's message one at the position at which the answer ended.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnlens.collectors.importing.exchanges import Said
from turnlens.tracing.messages import without_times

_REMEMBERED = 200_000
_INSTRUCTIONS = ("tools", "system", "developer")
# Text that nobody writes twice by chance [characters].
_TELLING = 40


def chain_digests(messages: Sequence[Said]) -> list[str]:
    """One digest a message: of it and all before it (SHA-256, 128 bits)."""
    found: list[str] = []
    so_far = b""
    for said in messages:
        raw = f"{said.role}\0{said.text}".encode("utf-8", "surrogatepass")
        so_far = hashlib.sha256(so_far + hashlib.sha256(raw).digest()).digest()
        found.append(so_far[:16].hex())
    return found


class Ends:
    """Where chains of messages have ended: after a prompt with these messages (its template's opening of the answer included),
    or after the last of them as an answer [tokens]."""

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[str, str], int] = OrderedDict()

    def note(self, kind: str, digest: str, end: int) -> None:
        """A ``prompt`` or an ``answer`` ended here."""
        self._ends[kind, digest] = end
        self._ends.move_to_end((kind, digest))
        if len(self._ends) > _REMEMBERED:
            self._ends.popitem(last=False)

    def points(self, digests: Sequence[str], prompt_tokens: int) -> list[tuple[str, int]]:
        """Prefix keys of a prompt and where each ends, ascending: of its beginnings that earlier ones had, and its own end."""
        found: dict[int, str] = {}
        for digest in digests:
            for kind in ("prompt", "answer"):
                end = self._ends.get((kind, digest))
                if end is not None and 0 < end < prompt_tokens:
                    found[end] = key_of(kind, digest)
        if digests and prompt_tokens > 0:
            found[prompt_tokens] = key_of("prompt", digests[-1])
        return [(found[end], end) for end in sorted(found)]


def key_of(kind: str, digest: str) -> str:
    """The prefix key of a chain's end."""
    return digest if kind == "prompt" else f"{digest}+answer"


@dataclass(slots=True)
class _Request:
    conversation: str
    length: int  # of its messages without instructions [characters]
    number: int


class Conversations:
    """Which conversation a request belongs to, where it does not say: that of the latest request of which it repeats at least
    half of the text and two messages; else of the latest with the same first message of the user, and the same instructions
    but for times where that message is short. A conversation is called ``derived:`` and the id of its first request."""

    def __init__(self) -> None:
        self._by_message: OrderedDict[str, _Request] = OrderedDict()
        self._by_beginning: OrderedDict[str, _Request] = OrderedDict()
        self._numbers = 0

    def of(self, request_id: str, messages: Sequence[Said], given: str | None = None) -> str:
        """The conversation of a request, which is remembered."""
        own = {_digest(said): len(said.text) for said in messages if said.role not in _INSTRUCTIONS}
        beginning = _beginning(messages)
        found = given or self._continued(own, beginning) or f"derived:{request_id}"
        self._numbers += 1
        request = _Request(found, sum(own.values()), self._numbers)
        for digest in own:
            _remember(self._by_message, digest, request)
        _remember(self._by_beginning, beginning, request)
        return found

    def _continued(self, own: Mapping[str, int], beginning: str) -> str | None:
        # A message is its latest request's: the others have been taken over by that one.
        messages: Counter[int] = Counter()
        shared: Counter[int] = Counter()
        requests: dict[int, _Request] = {}
        for digest, length in own.items():
            request = self._by_message.get(digest)
            if request is not None:
                messages[request.number] += 1
                shared[request.number] += length
                requests[request.number] = request
        for number in sorted(requests, reverse=True):
            if messages[number] >= 2 and 2 * shared[number] >= requests[number].length:
                return requests[number].conversation
        request = self._by_beginning.get(beginning)
        return None if request is None else request.conversation


def _beginning(messages: Sequence[Said]) -> str:
    """The first message that is no instruction; where it is short, with the instructions before it but for their times."""
    for at, said in enumerate(messages):
        if said.role not in _INSTRUCTIONS:
            if len(said.text) >= _TELLING:
                return _digest(said)
            return chain_digests([Said(each.role, without_times(each.text)) for each in messages[: at + 1]])[-1]
    return ""


def _digest(said: Said) -> str:
    return hashlib.sha256(f"{said.role}\0{said.text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _remember(memory: OrderedDict[str, _Request], name: str, value: _Request) -> None:
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
