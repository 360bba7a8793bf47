"""Prefix keys: what the engine calls a reusable prefix, made into short text that may leave the machine.

Keys are digests already, or names that the engine chose. No prompt text passes through here. With ``TURNLENS_HASH_KEY`` set,
every key is replaced by a keyed digest (HMAC-SHA256, 128 bits), so that who sees the store cannot test guesses of a prompt.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence

Key = bytes | str | int
Keys = Sequence[Key]
# A message of a prompt: its content or a digest of it, where it ends in the prompt [tokens, None: not known], its role.
Message = tuple[str | bytes, int | None, str | None]
_TEXT_LIMIT = 64


def key_text(key: object) -> str:
    """A key as text: bytes as hexadecimal digits of the first 16 (two of a billion keys share those with odds below 1e-20),
    integers as 16 hexadecimal digits, text as it is, up to 64 characters."""
    if isinstance(key, bytes):
        return key[:16].hex()
    if isinstance(key, int):
        return f"{key & 0xFFFF_FFFF_FFFF_FFFF:016x}"
    return str(key)[:_TEXT_LIMIT]


def keyed(secret: str | None) -> Callable[[object], str]:
    """The function that makes keys into text: plain, or keyed with the operator's secret."""
    if not secret:
        return key_text
    raw = secret.encode()

    def digest(key: object) -> str:
        data = key if isinstance(key, bytes) else str(key).encode()
        return hmac.digest(raw, data, "sha256")[:16].hex()

    return digest


def digests(secret: str | None) -> Callable[[str | bytes], str]:
    """The function that makes contents of messages into digests of 128 bits (SHA-256, or HMAC with the operator's secret). What
    it is given may be a digest already; it is never passed on as it is."""
    raw = secret.encode() if secret else None

    def digest(content: str | bytes) -> str:
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        return (hmac.digest(raw, data, "sha256") if raw else hashlib.sha256(data).digest())[:16].hex()

    return digest


class ReusePoints:
    """Positions (tokens) at which a prompt's prefix keys end: a spacing, or a list of positions. The keys are held by
    reference and read late, since an engine may go on adding keys of the output; those past the prompt are ignored."""

    __slots__ = ("_at", "_keys", "_text", "_texts")

    def __init__(self, keys: Keys, at: int | Sequence[int], text: Callable[[object], str]) -> None:
        self._keys = keys
        self._at = at
        self._text = text
        self._texts: list[str] = []

    @property
    def spacing(self) -> int | None:
        """Tokens from one reuse point to the next, or None where they stand at positions of their own."""
        return self._at if isinstance(self._at, int) else None

    def count(self, upto: int) -> int:
        """How many reuse points end at or below position ``upto``."""
        if isinstance(self._at, int):
            return min(len(self._keys), upto // self._at) if self._at > 0 else 0
        known = min(len(self._keys), len(self._at))
        low, high = 0, known
        while low < high:
            middle = (low + high) // 2
            if self._at[middle] <= upto:
                low = middle + 1
            else:
                high = middle
        return low

    def end(self, index: int) -> int:
        """Position at which reuse point ``index`` ends."""
        return (index + 1) * self._at if isinstance(self._at, int) else self._at[index]

    def key(self, index: int) -> str:
        """The key of reuse point ``index`` as text."""
        while len(self._texts) <= index:
            self._texts.append(self._text(self._keys[len(self._texts)]))
        return self._texts[index]

    def after(self, position: int, prompt: int) -> str:
        """The key of the first reuse point past ``position``, or '' where the prompt has none."""
        index = self.count(position)
        return self.key(index) if index < self.count(prompt) else ""
