"""llama-server: its log, joined to requests and responses where there are any, as turns.

A slot's content is what the device holds; the cache in host memory (``--cache-ram``) is another tier, from which a prompt
is restored. A context checkpoint belongs to its slot: what it brings back is a hit. What a slot loses when a task of another
prompt is launched in it is ``evicted.slot_reassigned``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from turnlens.collectors.importing.answers import Answers
from turnlens.collectors.importing.chains import Conversations, Ends, chain_digests, key_of, thinned
from turnlens.collectors.importing.exchanges import Exchange, texts
from turnlens.collectors.importing.llama_caches import Held, HostCache
from turnlens.collectors.importing.llama_joining import Responses
from turnlens.collectors.importing.llama_tasks import Change, Server, Task
from turnlens.collectors.importing.recording import Recording
from turnlens.collectors.importing.timeline import Timeline
from turnlens.tracing import Turn

_WINDOW, _RECURRENT, _EITHER = "sliding_window", "recurrent_checkpoint", "swa_or_recurrent"


class LlamaTurns:
    """Takes the tasks of one server start as they end, and tells a recorder what happened, in the order in which it did."""

    def __init__(self, recording: Recording, server: Server, responses: Responses, anchor_ns: int) -> None:
        self._recording = recording
        self._recorder = recording.recorder
        self._server = server
        self._responses = responses
        self._anchor_ns = anchor_ns
        self._timeline = Timeline()
        self._slots: dict[int, Held] = {}
        self._host = HostCache()
        self._ends = Ends()
        self._conversations = Conversations()
        self._answers = Answers()
        self._turns: dict[int, Turn] = {}

    def take(self, task: Task, first_open_us: int | None) -> bool:
        """A task ended. Calls are made up to where none that is still under way began. Returns whether the log says enough of
        it to be told."""
        prompt = prompt_of(task)
        exchange = self._responses.of(task, prompt, self._anchor_ns)
        if task.refused:
            self._timeline.add(self._ns(task.launched_us), partial(self._refuse, task, exchange))
        elif prompt is not None:
            begun = self._begin_ns(task, exchange)
            # It is told when it is launched: what it finds there, the task before it in the queue leaves.
            self._timeline.add(max(begun, self._ns(task.launched_us)), partial(self._launch, task, exchange, prompt, begun))
            self._timeline.add(max(begun, self._first_ns(task)), partial(self._compute, task, exchange, prompt))
            if task.shifted_us is not None:
                self._timeline.add(max(begun, self._ns(task.shifted_us)), partial(self._shift, task))
            self._timeline.add(
                max(begun, self._ns(task.end_us or task.launched_us)), partial(self._end, task, exchange, prompt)
            )
        self._timeline.run(None if first_open_us is None else self._ns(first_open_us))
        return task.refused or prompt is not None

    def close(self) -> None:
        """No more tasks come."""
        self._timeline.run()

    # -- times ------------------------------------------------------------------------------------------------------------

    def _ns(self, at_us: int) -> int:
        return self._anchor_ns + at_us * 1_000

    def _begin_ns(self, task: Task, exchange: Exchange | None) -> int:
        """When it came to the server: when it was sent, or put into the queue, or chosen a slot for."""
        seen = self._ns(min(task.choice.at_us or task.launched_us, task.launched_us))
        if task.deferred_us is not None:
            seen = self._ns(task.deferred_us)
        sent = exchange.start_ns if exchange is not None else None
        return seen if sent is None else min(sent, seen)

    def _first_ns(self, task: Task) -> int:
        """The first token: the prompt was done so long before the timings were printed as generating took."""
        at_us = task.timed_us or task.end_us or task.launched_us
        if task.timed_us is not None and task.eval_ms is not None:
            at_us = round(task.timed_us - task.eval_ms * 1e3)
        return self._ns(min(max(at_us, task.launched_us), task.end_us or at_us))

    # -- what happened, each at its time ----------------------------------------------------------------------------------

    def _refuse(self, task: Task, exchange: Exchange | None) -> None:
        turn = self._turn(task, exchange, task.prompt or 0, [], None, self._ns(task.launched_us))
        turn.finished("error", at_ns=self._ns(task.launched_us))

    def _turn(
        self, task: Task, exchange: Exchange | None, prompt: int, points: list[tuple[int, str]], basis: str | None, at_ns: int
    ) -> Turn:
        of = str(task.number)
        name = exchange.request_id if exchange is not None else f"{self._recording.origin.engine}-{of}"
        conversation = changed = None
        if exchange is not None:
            conversation = self._conversations.of(name, exchange.messages, exchange.conversation_id)
            changed = self._answers.changed(conversation, exchange.messages)
            self._answers.note(conversation, exchange)
        return self._recorder.turn(
            name,
            conversation,
            prompt_tokens=prompt,
            prefix=[key for _, key in points],
            prefix_at=[end for end, _ in points],
            messages=texts(exchange.messages) if exchange is not None else (),
            at_ns=at_ns,
            **self._recording.attributes(
                of,
                exchange.traceparent if exchange is not None else None,
                model=exchange.model if exchange is not None else None,
                usage_prompt_tokens=exchange.usage.prompt_tokens if exchange is not None else None,
                usage_cached_tokens=_counted(exchange),
                cache_disabled="by_request" if exchange is not None and not exchange.reads_cache else None,
                prefix_basis=basis,
                prompt_changed=changed,
                queue_known=True,
                task=task.number,
                slot=task.slot,
            ),
        )

    def _launch(self, task: Task, exchange: Exchange | None, prompt: int, begun_ns: int) -> None:
        changed = [self._change(change) for change in task.changes]
        held = self._slots.setdefault(task.slot, Held())
        reused = _reused(task, prompt)
        restored = self._restored(task, prompt, reused)
        loaded = (self._host.take(task.choice.ram_length or -1) or Held()) if restored else Held()
        loaded.cut(reused)
        points = self._points(task, exchange, prompt, loaded if restored else held)
        basis = None if exchange is not None else self._basis(task, prompt, reused, restored, held)
        turn = self._turns[task.number] = self._turn(task, exchange, prompt, points, basis, begun_ns)
        at_ns = self._ns(task.launched_us)
        for tell in changed:
            tell(turn)
        self._say_other_slot(task, turn, {key for _, key in points}, reused, at_ns)
        facts = self._matched(task, reused, restored, held)
        if restored:
            begun = self._ns(task.choice.ram_us or task.launched_us)
            done = max(self._ns(task.choice.ram_done_us or task.launched_us), begun)
            turn.admitted(0, offered_tokens=reused, tier="host", at_ns=begun, **facts)
            turn.restore_started(reused, tier="host", at_ns=begun)
            turn.restore_finalized(True, reused, at_ns=done)
            self._evict(held.cut(0), held.length, turn, at_ns)
            self._slots[task.slot] = Held()
            for key, end in loaded.keys:
                self._publish(key, end, turn, task.slot, done)
        else:
            turn.admitted(reused, at_ns=at_ns, **facts)
            # Of a prompt that is there whole the last token is computed again, and stays.
            kept, length = (prompt if reused == prompt - 1 else reused), held.length
            self._evict(held.cut(kept), length - kept, turn, at_ns + 1)

    def _points(self, task: Task, exchange: Exchange | None, prompt: int, held: Held) -> list[tuple[int, str]]:
        """Where prefix keys of a prompt end, and the keys: by its messages, and by what the slot held that it shares."""
        exact = _shared(task)
        shared = max(exact or 0, _reused(task, prompt))
        points = {end: key for key, end in held.keys if end <= min(shared, prompt)}
        if exchange is not None:
            # The same text can be other tokens: what was generated token by token is not always what it is tokenized to.
            others = {key for key, end in held.keys if exact is not None and end > exact}
            ends = self._ends.points(chain_digests(exchange.messages), prompt)
            points |= {end: key for key, end in ends if key not in others or end == prompt}
        else:
            points.setdefault(prompt, self._own_key(task))
        return thinned(sorted(points.items()))

    def _own_key(self, task: Task) -> str:
        return f"{self._recording.ids.trace_id(str(task.number)):032x}"

    def _basis(self, task: Task, prompt: int, reused: int, restored: bool, held: Held) -> str:
        """How much a log alone says of what had been seen: a prompt that begins with all that its slot held goes on; of another
        the log does not say whether it had been here before."""
        goes_on = held.length > 0 and max(_shared(task) or 0, reused) >= min(held.length, prompt - 1)
        first = self._server.from_start and not any(other.length for other in self._slots.values())
        return "engine" if goes_on or restored or first else "none"

    def _matched(self, task: Task, reused: int, restored: bool, held: Held) -> dict[str, Any]:
        """How far the tokens matched where the state at that position was not to be had. Where they match into an answer that
        was broken off, its checkpoints went with it."""
        matched = task.choice.ram_shared if restored and task.choice.ram_shared is not None else _shared(task)
        looked_for = task.reprocessed or task.emptied or task.checkpoint is not None or task.window is not None
        if matched is None or matched <= reused or not looked_for:
            return {}
        broken_off = held.aborted_at is not None and not restored and matched >= held.aborted_at
        return {"matched_tokens": matched, "not_restorable": "after_abort" if broken_off else self._lacking(task)}

    def _restored(self, task: Task, prompt: int, reused: int) -> bool:
        """Whether what was reused came from host memory. Below log level 4 that follows where it is more than the slot can have
        shared with the prompt."""
        choice = task.choice
        if choice.ram_found:
            return reused > 0
        if self._server.detailed or reused == 0:
            return False
        if choice.least_recent:
            most = (choice.threshold or 0.1) * prompt
        elif choice.sim is not None and choice.keep is not None and choice.keep < 0.5:
            most = (choice.sim + 0.0005) * prompt + 1
        else:
            return False
        return reused > most and bool(self._server.ram_cache is not False)

    def _lacking(self, task: Task) -> str:
        if task.window is not None:
            return _WINDOW if task.window else _RECURRENT
        if self._server.window is not None:
            return _WINDOW if self._server.window > 0 else _RECURRENT
        return _EITHER

    def _say_other_slot(self, task: Task, turn: Turn, own: set[str], reused: int, at_ns: int) -> None:
        """Another slot holds more of this prompt."""
        held = [
            (end, slot)
            for slot, other in self._slots.items()
            for key, end in other.keys
            if slot != task.slot and key in own and end > reused
        ]
        if held:
            end, slot = max(held)
            turn.held_elsewhere("other_slot", end, str(slot), at_ns=at_ns)

    def _change(self, change: Change) -> Callable[[Turn], None]:
        """A cache made room, or took something. Returns what is to be told, with the turn for which it did."""
        at_ns = self._ns(change.at_us)
        held = self._slots.get(change.slot)
        if change.kind == "saved" and held is not None:
            entry = Held(change.tokens, list(held.keys))
            self._host.save(entry)
            return lambda turn: self._tell_saved(entry, at_ns)
        if change.kind == "dropped_oldest":
            dropped = self._host.drop_oldest() or Held()
            return lambda turn: self._evict(dropped.keys[-1:], dropped.length, turn, at_ns, "tier_capacity", "host")
        if change.kind == "dropped_obsolete":
            self._host.take(change.tokens)
        if change.kind == "cleared" and held is not None:
            gone = held.cut(0)
            return lambda turn: self._evict(gone, change.tokens, turn, at_ns, "memory")
        if change.kind == "erased" and held is not None:
            gone = held.cut(0)
            return lambda turn: self._evict(gone, change.tokens, None, at_ns, "by_request")
        return lambda turn: None

    def _tell_saved(self, entry: Held, at_ns: int) -> None:
        for key, end in entry.keys[-1:]:
            self._recorder.publish(key, end, tier="host", slots=0, at_ns=at_ns).end("committed", at_ns=at_ns)

    def _evict(
        self,
        gone: list[tuple[str, int]],
        tokens: int,
        turn: Turn | None,
        at_ns: int,
        reason: str = "slot_reassigned",
        tier: str = "device",
    ) -> None:
        """Keys went, deepest first, with so many tokens in all: the first of them stands for these."""
        for number, (key, _) in enumerate(gone):
            lost = max(tokens, 0) if number == 0 else 0
            self._recorder.evicted(key, lost, tier=tier, reason=reason, for_turn=turn, at_ns=at_ns)

    def _publish(self, key: str, end: int, turn: Turn, slot: int, at_ns: int) -> None:
        """A key ends in a slot. The first one takes the slot, deeper ones lie in it."""
        held = self._slots.setdefault(slot, Held())
        if any(there == key for there, _ in held.keys):
            return
        parent = held.keys[-1][0] if held.keys else None
        publish = self._recorder.publish(key, end, parent_key=parent, turn=turn, slots=0 if held.keys else 1, at_ns=at_ns)
        publish.end("committed", at_ns=at_ns)
        held.add(key, end)

    def _compute(self, task: Task, exchange: Exchange | None, prompt: int) -> None:
        turn = self._turns[task.number]
        at_ns = self._first_ns(task)
        reused = _reused(task, prompt)
        done = prompt if _answered(task, prompt) else min(max(task.reached, reused), prompt)
        if task.computed is not None and task.computed != prompt - reused:
            # What was printed when it began, and when it had ended, cannot both be so.
            turn.flaw("parts_do_not_sum", at_ns=at_ns)
        if done > reused or _answered(task, prompt):
            turn.computed(reused, done, at_ns=at_ns)
        if task.prompt_ms is not None:
            turn.first_token(at_ns=at_ns)
            key = key_of("prompt", chain_digests(exchange.messages)[-1]) if exchange is not None else self._own_key(task)
            self._publish(key, prompt, turn, task.slot, at_ns)

    def _shift(self, task: Task) -> None:
        """The context was full: its first half was given up, and nothing in the slot is a prefix any more."""
        held = self._slots.setdefault(task.slot, Held())
        self._evict(held.cut(0), held.length, self._turns.get(task.number), self._ns(task.shifted_us or 0), "memory")

    def _end(self, task: Task, exchange: Exchange | None, prompt: int) -> None:
        turn, at_ns = self._turns.pop(task.number), self._ns(task.end_us or task.launched_us)
        whole = task.prompt_ms is not None
        held = self._slots.setdefault(task.slot, Held())
        if whole:
            self._leave(task, exchange, prompt, turn, at_ns)
        held.length = task.held if task.held is not None else held.length
        status = exchange.status if exchange is not None else "stop" if whole and not task.cancelled else "abort"
        held.aborted_at = prompt if status == "abort" and _answered(task, prompt) else None
        turn.finished(status, output_tokens=task.generated, at_ns=at_ns)

    def _leave(self, task: Task, exchange: Exchange | None, prompt: int, turn: Turn, at_ns: int) -> None:
        """The slot holds the prompt and the answer."""
        end = task.held or 0
        key: str | None = f"{self._own_key(task)}+answer"
        if exchange is not None:
            self._ends.note("prompt", chain_digests(exchange.messages)[-1], prompt)
            key = None
            if exchange.answer is not None and end > prompt:
                answered = chain_digests([*exchange.messages, exchange.answer])[-1]
                self._ends.note("answer", answered, end)
                key = key_of("answer", answered)
        if key is not None and end > prompt and task.shifted_us is None:
            self._publish(key, end, turn, task.slot, at_ns)


def _counted(exchange: Exchange | None) -> int | None:
    """Cached tokens by the response."""
    if exchange is None:
        return None
    timed = exchange.timings.cache_n if exchange.timings is not None else None
    return exchange.usage.cached_tokens if timed is None else timed


def prompt_of(task: Task) -> int | None:
    """The prompt's length. Below log level 4 it follows: the slot held the prompt and all generated tokens but the last."""
    if task.prompt is not None:
        return task.prompt
    if task.held is None or task.computed is None:
        return None
    generated = max((task.generated or 1) - 1, 0)
    return task.held - generated if task.held - generated >= task.computed else None


def _answered(task: Task, prompt: int) -> bool:
    """Whether all of the prompt was computed: it was timed, or the slot held as much, also where an answer was broken off."""
    return task.prompt_ms is not None or (task.held or 0) >= prompt > 0


def _reused(task: Task, prompt: int) -> int:
    """Where computing began."""
    return min(task.reused if task.reused is not None else prompt - (task.computed or 0), prompt)


def _shared(task: Task) -> int | None:
    """How much of the slot's content the prompt begins with; None where the log does not say to the token."""
    return task.choice.shared if not task.choice.was_empty else 0
