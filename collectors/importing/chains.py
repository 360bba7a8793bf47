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
_POINTS = 24
_ID_BLOCK = 64
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

    def prompt(self, digest: str) -> int | None:
        """Where a prompt of these messages ended."""
        return self._ends.get(("prompt", digest))

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


def id_points(token_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Reuse points (end, key) of a prompt given as token ids: after every 64th, each key of all ids up to there (SHA-256, 128
    bits)."""
    found: list[tuple[int, str]] = []
    so_far = b""
    for end in range(_ID_BLOCK, len(token_ids) + 1, _ID_BLOCK):
        block = ",".join(map(str, token_ids[end - _ID_BLOCK : end])).encode()
        so_far = hashlib.sha256(so_far + hashlib.sha256(block).digest()).digest()
        found.append((end, so_far[:16].hex()))
    return found


def thinned(points: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Of many reuse points (end, key) the deepest, which say how much had been seen, and some of those above them: a
    conversation of hundreds of turns would bring hundreds with each."""
    if len(points) <= _POINTS:
        return list(points)
    deepest = points[-_POINTS // 2 :]
    above = points[: -len(deepest)]
    step = -(-len(above) // (_POINTS - len(deepest)))
    return [*above[step - 1 :: step], *deepest]


def key_of(kind: str, digest: str) -> str:
    """The prefix key of a chain's end."""
    return digest if kind == "prompt" else f"{digest}+answer"


@dataclass(slots=True)
class _Request:
    conversation: str
    number: int
    count: int  # its messages, without instructions
    length: int  # of these [characters]
    last: str  # the digest of the last of them
    instructions: str  # a digest of all that stands before, but for times


class Conversations:
    """Which conversation a request belongs to, where it does not say: that of the latest request that it goes on from, or
    changes. It repeats that one's last message and half of its text; and it has more messages, or three of them again, or the
    same instructions but for times. Or it begins with the same message of the user under the same instructions, and is shorter
    or longer: what was left out. A conversation is called ``derived:`` and the id of its first request."""

    def __init__(self) -> None:
        self._by_message: OrderedDict[str, _Request] = OrderedDict()
        self._by_beginning: OrderedDict[str, _Request] = OrderedDict()
        self._numbers = 0

    def of(self, request_id: str, messages: Sequence[Said], given: str | None = None) -> str:
        """The conversation of a request, which is remembered."""
        said = [each for each in messages if each.role not in _INSTRUCTIONS]
        before = [Said(each.role, without_times(each.text)) for each in messages if each.role in _INSTRUCTIONS]
        own = {_digest(each): len(each.text) for each in said}
        instructions = chain_digests(before)[-1] if before else ""
        self._numbers += 1
        request = _Request("", self._numbers, len(said), sum(own.values()), _digest(said[-1]) if said else "", instructions)
        beginning = f"{instructions} {_digest(said[0])}" if said else ""
        request.conversation = given or self._continued(own, request, beginning) or f"derived:{request_id}"
        for digest in own:
            _remember(self._by_message, digest, request)
        _remember(self._by_beginning, beginning, request)
        return request.conversation

    def _continued(self, own: Mapping[str, int], request: _Request, beginning: str) -> str | None:
        # A message is its latest request's: the others have been taken over by that one.
        messages: Counter[int] = Counter()
        shared: Counter[int] = Counter()
        earlier: dict[int, _Request] = {}
        for digest, length in own.items():
            other = self._by_message.get(digest)
            if other is not None:
                messages[other.number] += 1
                shared[other.number] += length
                earlier[other.number] = other
        for number in sorted(earlier, reverse=True):
            other = earlier[number]
            goes_on = request.count > other.count and (messages[number] >= 2 or shared[number] >= _TELLING)
            alike = messages[number] >= 3 or request.instructions == other.instructions
            if other.last in own and 2 * shared[number] >= other.length and (goes_on or alike):
                return other.conversation
        begun = self._by_beginning.get(beginning)
        return begun.conversation if begun is not None and begun.count != request.count else None


def _digest(said: Said) -> str:
    return hashlib.sha256(f"{said.role}\0{said.text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _remember(memory: OrderedDict[str, _Request], name: str, value: _Request) -> None:
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
