"""An independent account of where each prompt token came from.

It sees what a worker sees: the contents of each SchedulerOutput (which request, from which position, how many tokens, in which
blocks), the connector's own offers, and the load results that the bench made up. It uses no hook, no ledger and no counter of
vLLM's. Position by position, with plain lists, so that it can be checked by reading.
"""

from dataclasses import dataclass, field
from typing import Any

BLOCK = 32


@dataclass(eq=False)
class Attempt:
    """From one admission to the next preemption, as far as a worker can tell."""

    start: int  # where its first step begins
    load: Any = None  # the accepted external load that its prefix stands on
    verified: int = 0  # absolute end of what that load really brought
    held: list[str] = field(default_factory=list)  # a source per position, "" where nothing
    consumed: bool = False


@dataclass(eq=False)
class Step:
    request_id: str
    attempt: Attempt
    start: int
    end: int
    dropped: bool = False  # the scheduler threw the output away


@dataclass(eq=False)
class Story:
    prompt: int
    attempts: list[Attempt] = field(default_factory=list)
    load: Any = None  # accepted, not yet part of an attempt
    landed: int | None = None  # absolute valid prefix, once it has landed
    blocks: list[int] = field(default_factory=list)
    coverage: list[str] | None = None  # of the attempt that reached the prompt's end first
    work: dict[str, int] = field(default_factory=lambda: {"hit": 0, "restored": 0, "computed": 0})
    recovered: int = 0
    reused: int = 0  # end of what any attempt took from elsewhere: that prefix must have been seen before
    resumed: bool = True  # its next step opens an attempt
    over: bool = False


class Replay:
    """Give it to the bench as an observer."""

    def __init__(self) -> None:
        self.stories: dict[str, Story] = {}
        self.steps: dict[int, list[Step]] = {}  # id of the SchedulerOutput

    def arrives(self, request_id: str, prompt: int) -> None:
        self.stories[request_id] = Story(prompt)

    # -- what the worker is told ----------------------------------------------------------------------------------------

    def scheduled(self, output: Any, loads: list[Any]) -> None:
        for load in loads:
            story = self.stories[load.request_id]
            story.load, story.landed = load, None
        begins: dict[str, int] = {}
        cached = output.scheduled_cached_reqs
        for new in output.scheduled_new_reqs:
            story = self.stories[new.req_id]
            story.resumed = True
            story.blocks = list(new.block_ids[0])
            begins[new.req_id] = new.num_computed_tokens
        for request_id, start, blocks in zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True):
            story = self.stories[request_id]
            if request_id in cached.resumed_req_ids:
                story.resumed = True
                story.blocks = []
            story.blocks += blocks[0] if blocks else []
            begins[request_id] = start
        steps = []
        for request_id, tokens in output.num_scheduled_tokens.items():
            story = self.stories[request_id]
            start = begins[request_id]
            if story.resumed:
                self._open(story, start)
            steps.append(Step(request_id, story.attempts[-1], start, start + tokens))
        self.steps[id(output)] = steps

    def _open(self, story: Story, start: int) -> None:
        attempt = Attempt(start, held=[""] * story.prompt)
        load = story.load
        if load is not None:
            attempt.load = load
            # A synchronous load is good until its step comes back and says otherwise.
            attempt.verified = story.landed if load.asynchronous and story.landed is not None else load.local + load.external
        story.load, story.landed, story.resumed = None, None, False
        story.attempts.append(attempt)

    # -- what the worker returns ------------------------------------------------------------------------------------------

    def returning(self, returned: Any, scheduler: Any) -> None:
        """Before the scheduler sees it: which steps stand on blocks that failed to load?"""
        running = [request.request_id for request in scheduler.running]
        taken: set[int] = set()
        steps = {step.request_id: step for step in self.steps[id(returned.output)]}
        for request_id in sorted(steps, key=lambda name: running.index(name) if name in running else len(running)):
            if request_id not in running:
                continue
            step, story = steps[request_id], self.stories[request_id]
            bad = [at for at, block in enumerate(story.blocks[: -(-step.start // BLOCK)]) if block in returned.invalid]
            if not bad:
                continue
            step.dropped = True
            first = next((at for at in bad if story.blocks[at] not in taken), None)
            taken.update(story.blocks[at] for at in bad)
            if first is not None and step.attempt.load is not None and not step.attempt.consumed:
                step.attempt.verified = min(step.attempt.verified, first * BLOCK)
        for request_id in returned.landed:
            story = self.stories[request_id]
            if story.load is None:
                continue
            load = story.load
            end = load.local + load.external
            bad_at = [at for at, block in enumerate(load.block_ids) if block in returned.invalid]
            if bad_at:
                end = min(end, (load.local // BLOCK + bad_at[0]) * BLOCK)
            story.landed = 0 if request_id in returned.lost else end
            if story.landed == 0:  # nothing usable: vLLM looks it up afresh
                story.load, story.landed = None, None

    def returned(self, returned: Any, finished: dict[str, str]) -> None:
        for step in self.steps.pop(id(returned.output)):
            story = self.stories[step.request_id]
            if story.over or step.dropped:
                continue
            self._accept(story, step)
        for request_id in finished:
            self.stories[request_id].over = True

    def _accept(self, story: Story, step: Step) -> None:
        attempt = step.attempt
        start, end = min(step.start, story.prompt), min(step.end, story.prompt)
        before = story.attempts[: story.attempts.index(attempt)]
        if not attempt.consumed:
            attempt.consumed = True
            local = min(attempt.load.local, attempt.verified) if attempt.load else start
            restored = attempt.verified if attempt.load else start
            for at in range(start):
                if at < local:
                    earlier = next((old.held[at] for old in reversed(before) if old.held[at]), "")
                    attempt.held[at] = earlier or "hit"
                    if earlier:
                        story.recovered += 1
                    else:
                        story.work["hit"] += 1
                        story.reused = max(story.reused, at + 1)
                elif at < restored:
                    attempt.held[at] = "restored"
                    story.work["restored"] += 1
                    if not any(old.held[at] for old in before):  # what it had held itself proves nothing about others
                        story.reused = max(story.reused, at + 1)
        for at in range(start, story.prompt):
            attempt.held[at] = ""  # what was taken back, or not reached yet
        for at in range(start, end):
            attempt.held[at] = "computed"
        story.work["computed"] += end - start
        if end == story.prompt and "" not in attempt.held and story.coverage is None and not story.over:
            story.coverage = list(attempt.held)

    # -- what the test tells it --------------------------------------------------------------------------------------------

    def aborted(self, request_id: str) -> None:
        """Steps in flight will run, but the scheduler throws their outputs away."""
        self.stories[request_id].over = True

    def reset(self, running: list[str]) -> None:
        """A reset with running requests preempts them all and drops what is in flight."""
        for steps in self.steps.values():
            for step in steps:
                if step.request_id in running:
                    step.dropped = True

    def partition(self, request_id: str) -> list[str]:
        story = self.stories[request_id]
        if story.coverage is not None:
            return story.coverage
        return story.attempts[-1].held if story.attempts else [""] * story.prompt
