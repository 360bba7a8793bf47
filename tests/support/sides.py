"""Two runs of the same five conversations, small enough to check by hand."""

from memory_store import CountingIds, MemoryStore, Scene
from scenes import chain


def run_of(run: str, version: str, ids_above: int, second_hit: int, second_first: float) -> Scene:
    """Each conversation: 100 tokens of which nothing had been seen, then 140 of which 96 had. The second turn finds
    ``second_hit`` of them, and its first token comes ``second_first`` seconds after it."""
    scene = Scene(engine="ring", engine_version=version, ids=CountingIds(ids_above))
    for number in range(5):
        of, start = f"c{number}", 100.0 * number
        keys = chain(of, 6)
        scene.serve(f"{run}-{of}-t1", of, 100, keys, start, publish=keys, run=run)
        more, first = [*keys, f"{of}6", f"{of}7"], start + 50 + second_first
        scene.serve(f"{run}-{of}-t2", of, 140, more, start + 50, hit=second_hit, first=first, run=run)
    return scene


def two_runs() -> tuple[Scene, Scene]:
    """Run ``before`` of version 1 finds 48 tokens after 2 s, run ``after`` of version 2 finds 96 after 1 s."""
    return run_of("before", "1", 0, 48, 2.0), run_of("after", "2", 100_000, 96, 1.0)


def store_of_two() -> MemoryStore:
    """Both in one store. One turn more of ``after`` ends without a step: it is incomplete."""
    before, after = two_runs()
    lost = after.recorder.turn("after-lost", "c0", prompt_tokens=150, prefix=["c00"], at_ns=after.at(900), run="after")
    lost.admitted(0, at_ns=after.at(900.1))
    lost.finished("abort", at_ns=after.at(901))
    store = MemoryStore()
    for scene in (before, after):
        store.add(scene.spans())
        scene.recorder.close()
    return store
