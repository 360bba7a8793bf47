"""How a request repeats the answer before it: as it was, without its thinking, or rendered anew."""

from collections import OrderedDict
from collections.abc import Sequence

from turnlens.collectors.importing.exchanges import Exchange, Said
from turnlens.tracing.messages import without_thinking

_CONVERSATIONS = 4_096
_CHARACTERS = 64 << 20


class Answers:
    """The latest exchange of each conversation, in bounded memory. Texts are compared here, and never leave."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, tuple[Sequence[Said], Said | None]] = OrderedDict()
        self._characters = 0

    def changed(self, conversation: str, messages: Sequence[Said]) -> str | None:
        """``thinking_stripped`` or ``output_rerendered`` where these messages go on from the conversation's latest request and
        repeat its answer otherwise; None where they repeat it as it was, or nothing can be said."""
        before = self._latest.get(conversation)
        if before is None:
            return None
        asked, answer = before
        at = len(asked)
        if answer is None or len(messages) <= at or list(messages[:at]) != list(asked) or messages[at].role != "assistant":
            return None
        said, given = messages[at].text.strip(), answer.text.strip()
        if said == given:
            return None
        # What stands before the answer proper was thinking, whatever marks it had.
        stripped = said == without_thinking(given).strip() or (bool(said) and given.endswith(said))
        return "thinking_stripped" if stripped else "output_rerendered"

    def note(self, conversation: str, exchange: Exchange) -> None:
        """An exchange of a conversation is over."""
        before = self._latest.pop(conversation, None)
        self._characters += _size(exchange.messages, exchange.answer) - (0 if before is None else _size(*before))
        self._latest[conversation] = (exchange.messages, exchange.answer)
        while len(self._latest) > _CONVERSATIONS or self._characters > _CHARACTERS:
            self._characters -= _size(*self._latest.popitem(last=False)[1])


def _size(messages: Sequence[Said], answer: Said | None) -> int:
    return sum(len(said.text) for said in messages) + (0 if answer is None else len(answer.text))
