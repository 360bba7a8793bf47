"""What the demo's users say and when. Lengths are tokens, pauses seconds; all drawn from one seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from turnlens.tracing.engines.reference.prompts import Message

# Prompts that several conversations begin with.
_CODING = Message("system:coding-agent", 3_000)
_ASSISTANT = Message("system:assistant", 800)


@dataclass(frozen=True, slots=True)
class Beat:
    """One turn of a conversation: what is said, what is answered, and how long after the last answer.

    ``messages`` are the lengths of what is said (a tool's result and a user's word are two). The rest is as in ``Request``."""

    pause_seconds: float
    messages: tuple[int, ...]
    output_tokens: int
    lease_seconds: float = 0.0
    cache_disabled: bool = False
    abort_after_seconds: float | None = None
    restore_fault: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """One conversation. Turns are named ``<short>-t01`` and so on. It begins ``starts_seconds`` after the beginning, or after
    the end of the turn ``starts_after``."""

    short: str
    conversation_id: str
    opening: tuple[Message, ...]
    beats: tuple[Beat, ...]
    starts_seconds: float = 0.0
    starts_after: str | None = None
    tenant: str | None = None


def demo_scripts(seed: int) -> list[Script]:
    """A dozen growing conversations, an agent's sub-agents in two bursts, and two long cold reads at the end."""
    draw = random.Random(seed)
    scripts = [*_agents(draw), *_chats(draw), *_documents(draw), *_sub_agents(draw), *_readers()]
    return [_with_incidents(script) for script in scripts]


def _agents(draw: random.Random) -> Iterator[Script]:
    """Coding agents: tools answer within moments, so their turns follow each other closely."""
    for number in range(1, 5):
        beats = [
            Beat(
                pause_seconds=round(draw.choice((0.05, 1.5, 6.0, 14.0)), 2),
                messages=(draw.randint(200, 1_400),),
                output_tokens=draw.randint(40, 160),
            )
            for _ in range(11)
        ]
        opening = [_CODING, Message(f"agent-{number}:task", draw.randint(400, 1_200))]
        if number == 3:  # the long one: it has read a repository, and waits for its sub-agents twice
            opening += [Message(f"agent-3:file-{index}", draw.randint(1_800, 3_200)) for index in range(9)]
            beats[3] = replace(beats[3], pause_seconds=75.0)
            beats[7] = replace(beats[7], pause_seconds=75.0)
        yield Script(f"c{number:02}", f"agent-{number}", tuple(opening), tuple(beats), 4.0 * number, tenant="coding")


def _chats(draw: random.Random) -> Iterator[Script]:
    """People: they read the answer and think."""
    for number in range(1, 7):
        beats = tuple(
            Beat(round(draw.uniform(8.0, 45.0), 1), (draw.randint(30, 300),), draw.randint(120, 420)) for _ in range(8)
        )
        yield Script(
            f"c{number + 4:02}", f"chat-{number}", (_ASSISTANT,), beats, round(draw.uniform(1.0, 60.0), 1), tenant="support"
        )


def _documents(draw: random.Random) -> Iterator[Script]:
    """Questions about a long document, far apart; what they leave is kept under a lease."""
    for number in range(1, 3):
        opening = (_ASSISTANT, Message(f"document-{number}", draw.randint(9_000, 14_000)))
        beats = tuple(
            Beat(round(draw.uniform(15.0, 70.0), 1), (draw.randint(40, 160),), draw.randint(150, 300), lease_seconds=45.0)
            for _ in range(6)
        )
        yield Script(f"c{number + 10}", f"document-{number}", opening, beats, 20.0 * number, tenant="research")


def _sub_agents(draw: random.Random) -> Iterator[Script]:
    """Short-lived helpers of agent-3, several at once: each turn takes slots that nobody will use again."""
    for number in range(1, 11):
        opening = (_CODING, Message(f"sub-{number}:task", draw.randint(300, 900)))
        beats = tuple(
            Beat(round(draw.uniform(0.1, 1.5), 2), (draw.randint(150, 500), draw.randint(40, 120)), draw.randint(40, 120))
            for _ in range(4)
        )
        after = "c03-t03" if number <= 5 else "c03-t07"
        yield Script(f"s{number:02}", f"sub-{number}", opening, beats, draw.uniform(0.5, 2.5), after, tenant="coding")


def _readers() -> Iterator[Script]:
    """Cold reads of whole books, two at once: the only ones that fill the pool."""
    for number in range(1, 3):
        opening = (_ASSISTANT, *(Message(f"book-{number}:part-{part}", 25_000) for part in range(4)))
        beats = (Beat(0.0, (60,), 120), Beat(4.0, (80,), 60))[: 3 - number]
        yield Script(f"r{number:02}", f"reader-{number}", opening, beats, 270.0 + 3.0 * number, tenant="research")


def _with_incidents(script: Script) -> Script:
    """What goes wrong, or is asked for, in single turns. A restore's fault waits for the first restore from that turn on."""
    changes: dict[tuple[str, int], dict[str, object]] = {
        ("c02", 6): {"cache_disabled": True},  # log-probabilities of the prompt were asked for
        ("c12", 1): {"abort_after_seconds": 3.5},  # the user goes away in mid-prompt
        ("c07", 2): {"restore_fault": "corrupt"},
        ("c10", 3): {"restore_fault": "partial"},
        ("c04", 3): {"restore_fault": "timeout"},
    }
    beats = list(script.beats)
    for (short, turn), change in changes.items():
        if short == script.short:
            beats[turn - 1] = replace(beats[turn - 1], **change)  # type: ignore[arg-type]
    return replace(script, beats=tuple(beats))
