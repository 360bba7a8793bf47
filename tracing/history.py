"""What ended turns leave to the next ones of their conversation and of their session."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TypeVar

# Conversations, and sessions, whose latest turn is remembered.
_REMEMBERED = 65_536

_Value = TypeVar("_Value")


@dataclass(slots=True)
class Left:
    """What a turn leaves to the next of its conversation: the end of the longest snapshot that it published [tokens]."""

    turn_id: str
    end: int = 0


class History:
    """The latest of every conversation and session, in bounded memory."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, int] = OrderedDict()  # of a conversation, as of its last turn
        self._session_tokens: OrderedDict[str, int] = OrderedDict()
        self._last: OrderedDict[str, Left] = OrderedDict()  # of a conversation

    def previous(self, conversation: str | None) -> Left | None:
        """What the turn that ended last in a conversation has left by now."""
        left = None if conversation is None else self._last.get(conversation)
        return None if left is None else replace(left)

    def conversation_tokens(self, conversation: str | None) -> int | None:
        """Prompt and output of the conversation's last turn; None without a conversation."""
        return None if conversation is None else self._tokens.get(conversation, 0)

    def session_tokens(self, session: str | None) -> int:
        """Prompt and output of the session's last turn."""
        return self._session_tokens.get(session, 0) if session else 0

    def ended(self, conversation: str | None, session: str | None, tokens: int, left: Left) -> None:
        """A turn ended that reached so many tokens."""
        for name, memory in ((conversation, self._tokens), (session, self._session_tokens)):
            if name is not None and tokens:
                _remember(memory, name, tokens)
        if conversation is not None:
            _remember(self._last, conversation, left)


def _remember(memory: OrderedDict[str, _Value], name: str, value: _Value) -> None:
    """Keep a value under a name, and of all names the latest."""
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
