"""Whatever goes wrong in a hook stays in the hook."""

import functools
import logging
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

# Below "vllm", so that the lines appear in vLLM's own log, with its handlers and its level.
log = logging.getLogger("vllm.turnlens")

# A hook that fails on each step of a busy engine would cost more than tracing is worth.
FAULTS_BEFORE_STOPPING = 100


class Faults:
    """Counts what went wrong. The first fault of each hook is logged with its traceback, later ones only counted; after
    FAULTS_BEFORE_STOPPING the hooks are taken off."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.by_hook: dict[str, int] = {}
        self._stop = stop

    @property
    def count(self) -> int:
        return sum(self.by_hook.values())

    def note(self, hook: str) -> None:
        """To be called from an `except` block."""
        first = hook not in self.by_hook
        self.by_hook[hook] = self.by_hook.get(hook, 0) + 1
        if first:
            log.exception("turnlens: the %s hook failed; the engine is unaffected, turns it concerns are incomplete", hook)
        if self.count >= FAULTS_BEFORE_STOPPING:
            log.error("turnlens: %d faults (%s); tracing stops, the engine goes on untraced", self.count, self.by_hook)
            self._stop()


class Guarded(Protocol):
    """What a class with guarded hooks has."""

    @property
    def active(self) -> bool: ...

    def fault(self, hook: str, *args: Any) -> None: ...


G = TypeVar("G", bound=Guarded)
P = ParamSpec("P")


def guarded(hook: Callable[Concatenate[G, P], None]) -> Callable[Concatenate[G, P], None]:
    """A hook runs only while tracing is active, returns nothing and raises nothing."""
    name = getattr(hook, "__name__", "hook")

    @functools.wraps(hook)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.active:
            try:
                hook(self, *args, **kwargs)
            except Exception:
                self.fault(name, *args)

    return call


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: Any) -> Any:
    """A parameter that the caller may have given by position or by name."""
    if name in kwargs:
        return kwargs[name]
    return args[position] if len(args) > position else default
