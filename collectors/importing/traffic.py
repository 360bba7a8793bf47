"""Requests and responses of any OpenAI- or Anthropic-compatible server as turns.

The usage says how many tokens were cached; where it does not say in which tier (SGLang's does), they count as a hit. A turn
without that count is incomplete. Waiting cannot be told from computing. What had been seen before follows from the messages: a
prompt that begins with all messages of an earlier one begins with its tokens. Of an answer the last token is not computed
before it is asked for again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from turnlens.collectors.importing.answers import Answers
from turnlens.collectors.importing.chains import Conversations, Ends, chain_digests, id_points, key_of, thinned
from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.exchange_files import read_exchanges
from turnlens.collectors.importing.exchanges import Exchange, texts
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin, Recording
from turnlens.collectors.importing.timeline import Timeline
from turnlens.tracing import Publish, Turn

KIND = "traffic"
_REMEMBERED = 65_536
_NO_COUNT = "{} of {} responses do not say how many tokens were cached: those turns are incomplete."


@dataclass(slots=True)
class _Ended:
    """What a turn left: where its prompt and its answer ended, and the answer's publish, of which nobody says how it ended."""

    prompt: int
    end: int
    publish: Publish


class TrafficTurns:
    """Tells a recorder of exchanges, which come in the order of their beginnings."""

    def __init__(self, recording: Recording, unit_tokens: int) -> None:
        self._recording = recording
        self._recorder = recording.recorder
        self._unit = max(unit_tokens, 1)
        self._timeline = Timeline()
        self._ends = Ends()
        self._answers = Answers()
        self._conversations = Conversations()
        self._left: OrderedDict[str, _Ended] = OrderedDict()

    def take(self, exchange: Exchange, *, in_order: bool = True) -> None:
        """An exchange with a beginning. Everything that happened before it is told. Of one that is not ``in_order``, what had
        been seen before it can no longer be said."""
        begun = exchange.start_ns or 0
        self._timeline.run(begun)
        # Without messages the keys of the prompt say what it goes on from, where there are any.
        conversation = exchange.conversation_id
        if exchange.messages:
            conversation = self._conversations.of(exchange.request_id, exchange.messages, conversation)
        prompt, cached = _counts(exchange)
        digests = chain_digests(exchange.messages)
        turn = self._begin(exchange, conversation, digests, prompt, begun, in_order)
        end = max(exchange.end_ns or begun, begun)
        first = None if exchange.first_token_ns is None else min(max(exchange.first_token_ns, begun), end)
        if prompt is not None and cached is not None:
            self._say_output_not_cached(digests, cached, begun)
            self._admit(turn, exchange, cached, begun)
            if exchange.status in ("stop", "length") or first is not None or (exchange.usage.output_tokens or 0) > 0:
                self._timeline.add(first or end, partial(turn.computed, cached, prompt, at_ns=first or end))
                if first is not None:
                    self._timeline.add(first, partial(turn.first_token, at_ns=first))
        self._timeline.add(end, partial(self._end, exchange, conversation, digests[-1:], turn, prompt, end))

    def until(self, before_ns: int) -> None:
        """Tell what ended before then: no exchange that is still to come began before."""
        self._timeline.run(before_ns)

    def close(self) -> None:
        """No more exchanges come."""
        self._timeline.run()

    def _begin(
        self,
        exchange: Exchange,
        conversation: str | None,
        digests: Sequence[str],
        prompt: int | None,
        begun: int,
        in_order: bool,
    ) -> Turn:
        cut = self._cut(digests, prompt)
        # What was cut begins with nothing that had been there.
        points = self._points(exchange, digests[-1:] if cut else digests, prompt)
        of = f"{exchange.request_id}\0{begun}"
        return self._recorder.turn(
            exchange.request_id,
            conversation,
            prompt_tokens=prompt,
            prefix=[key for _, key in points],
            prefix_at=[end for end, _ in points],
            messages=texts(exchange.messages),
            at_ns=begun,
            **self._recording.attributes(
                of,
                exchange.traceparent,
                end_known=False if exchange.end_ns is None else None,
                model=exchange.model,
                cache_disabled=None if exchange.reads_cache else "by_request",
                prefix_basis=None if in_order and (exchange.messages or points) else "none",
                prompt_changed="truncation" if cut else self._changed(conversation, exchange),
            ),
        )

    def _changed(self, conversation: str | None, exchange: Exchange) -> str | None:
        return None if conversation is None else self._answers.changed(conversation, exchange.messages)

    def _cut(self, digests: Sequence[str], prompt: int | None) -> bool:
        """Whether the server left something out: with all messages of an earlier prompt, and more, it has no more tokens."""
        ends = (self._ends.prompt(digest) for digest in digests[:-1])
        return prompt is not None and any(end is not None and end >= prompt for end in ends)

    def _points(self, exchange: Exchange, digests: Sequence[str], prompt: int | None) -> list[tuple[int, str]]:
        """Where the prompt can be told from others: after every so many token ids, else after messages."""
        if exchange.token_ids is not None and len(exchange.token_ids) == prompt:
            return id_points(exchange.token_ids)
        return thinned([(end, key) for key, end in self._ends.points(digests, prompt or 0)])

    @staticmethod
    def _admit(turn: Turn, exchange: Exchange, cached: int, begun: int) -> None:
        restored = exchange.usage.restored
        brought = sum(tokens for _, tokens in restored)
        if not brought:
            turn.admitted(cached, at_ns=begun)
            return
        # One restore stands for all tiers, by the name of the one that most came from.
        tier = max(restored, key=lambda item: item[1])[0]
        turn.admitted(cached - brought, offered_tokens=brought, tier=tier, at_ns=begun)
        turn.restore_started(brought, tier=tier, at_ns=begun)
        turn.restore_finalized(True, cached, at_ns=begun)

    def _say_output_not_cached(self, digests: Sequence[str], cached: int, begun: int) -> None:
        """The prompt goes on from an answer word by word, and was cached up to the end of the prompt before and no further."""
        for digest in reversed(digests[:-1]):
            left = self._left.get(digest)
            if left is not None:
                if cached == left.prompt // self._unit * self._unit < left.end // self._unit * self._unit:
                    left.publish.skip("output_not_cached", at_ns=begun)
                return

    def _end(
        self, exchange: Exchange, conversation: str | None, last: Sequence[str], turn: Turn, prompt: int | None, end: int
    ) -> None:
        output = exchange.usage.output_tokens
        if prompt is not None and exchange.token_ids and exchange.answer_ids and len(exchange.token_ids) == prompt:
            for position, key in id_points((*exchange.token_ids, *exchange.answer_ids[:-1])):
                if position > prompt:
                    self._recorder.publish(key, position, turn=turn, slots=0, at_ns=end)
        elif prompt is not None and last and exchange.status in ("stop", "length"):
            self._ends.note("prompt", last[0], prompt)
            if exchange.answer is not None and output is not None and output > 1:
                answered = chain_digests([*exchange.messages, exchange.answer])[-1]
                self._ends.note("answer", answered, prompt + output - 1)
                publish = self._recorder.publish(key_of("answer", answered), prompt + output - 1, turn=turn, slots=0, at_ns=end)
                _remember(self._left, answered, _Ended(prompt, prompt + output - 1, publish))
        if conversation is not None:
            self._answers.note(conversation, exchange)
        turn.finished(exchange.status, output_tokens=output, at_ns=end)


def _remember(memory: OrderedDict[str, _Ended], digest: str, left: _Ended) -> None:
    memory[digest] = left
    memory.move_to_end(digest)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)


def _counts(exchange: Exchange) -> tuple[int | None, int | None]:
    """Prompt tokens and cached ones; None where the response does not say, or says what cannot be."""
    if exchange.timings is not None and exchange.timings.cache_n is not None:
        return exchange.timings.cache_n + exchange.timings.prompt_n, exchange.timings.cache_n
    prompt, cached = exchange.usage.prompt_tokens, exchange.usage.cached_tokens
    return prompt, cached if prompt is not None and cached is not None and cached <= prompt else None


def import_traffic(
    paths: Sequence[Path],
    origin: Origin,
    unit_tokens: int = 1,
    kind: str = KIND,
    read: Callable[[Path, Account], Iterator[Exchange]] = read_exchanges,
) -> list[Account]:
    """Read files of requests and responses, as lines of another form where ``read`` reads them. Returns their accounts. Raises
    SourceError and OSError."""
    accounts: list[Account] = []
    exchanges: list[Exchange] = []
    for path in paths:
        account = Account(str(path))
        accounts.append(account)
        for exchange in read(path, account):
            if exchange.start_ns is None:
                account.skip("a request without a time")
            else:
                exchanges.append(exchange)
                account.turns += 1
    if not exchanges:
        names = ", ".join(str(path) for path in paths)
        raise SourceError(f"{names}: no request with a time was found. What was left out: {_left_out(accounts)}.")
    exchanges.sort(key=lambda exchange: (exchange.start_ns or 0, exchange.request_id))
    first = exchanges[0]
    # A request is the same in whatever file, beside whatever others.
    recording = Recording(origin, kind, "", first.start_ns or 0, {"unit_tokens": unit_tokens})
    turns = TrafficTurns(recording, unit_tokens)
    for exchange in exchanges:
        turns.take(exchange)
    turns.close()
    silent = sum(_counts(exchange)[1] is None for exchange in exchanges)
    if silent:
        accounts[0].note(_NO_COUNT.format(silent, len(exchanges)))
    if not recording.close():
        raise SourceError("Not everything could be stored. Import it again: nothing is stored twice.")
    return accounts


def _left_out(accounts: Sequence[Account]) -> str:
    return (
        ", ".join(f"{reason} ({count})" for account in accounts for reason, count in account.unread.most_common()) or "nothing"
    )
