"""Every answer as a frame: the same call for the command line, the dashboard and a notebook."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from memory_store import MemoryStore, Scene
from scenes import chain

from turnlens.queries import comparing, frames, library
from turnlens.queries.arguments import ARGUMENTS, NARROWER
from turnlens.queries.errors import QueryError, UnknownConversationError, UnknownTurnError
from turnlens.queries.library import SqlObject
from turnlens.queries.ranges import Range
from turnlens.queries.whatif import whatif

ROOT = Path(__file__).parents[2]
NARROWED = [item for item in library.objects() if not item.private and item.arguments[-len(NARROWER) :] == NARROWER]
ASKED = [item for item in library.objects() if not item.private]
GIVEN = {
    "axis": "publishes",
    "names_of": "run",
    "a": "before",
    "b": "after",
    "seconds": 60,
    "id": "a-2",
    "rows_each": 10,
    "steps": 60,
    "ordered_by": "latest",
    "page_number": 1,
    "resource": "none",
    "object": "turns",
    "trace": "0" * 32,
    "span": "0" * 16,
}


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    """Conversation agent-3 on three slots: it loses its prefix to b-1 and comes back for it as run after."""
    scene = Scene(engine="reference", slots=3, pool_tokens=1_000)
    keys = ["a0", "a1"]
    scene.serve("c03-t03", "agent-3", 40, keys, 0, publish=keys, run="before")
    b = scene.serve("b-1", "b", 20, ["b0"], 5, publish=["b0"], run="before")
    scene.recorder.sample(free_slots=0, free_tokens=900, at_ns=scene.at(6.4))
    scene.recorder.evicted(keys, 16, reason="slots", for_turn=b, at_ns=scene.at(6.5))
    scene.serve("c03-t04", "agent-3", 60, ["a0", "a1", "a2"], 10, run="after")
    made = scene.store()
    yield made
    made.close()


def test_the_page_of_questions_says_what_is_so(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of its Python is run on its own; each of its expressions is a frame with the columns that are declared."""
    text = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "questions.md").read_text(), re.DOTALL)
    assert text is not None
    monkeypatch.setattr("turnlens.queries.connect", lambda _: store)
    scope: dict[str, object] = {}
    found: list[pa.Table] = []
    for statement in ast.parse(text[1]).body:
        code = ast.unparse(statement)
        if isinstance(statement, ast.Expr):
            found.append(eval(code, scope))
        else:
            exec(code, scope)
    declared = {
        name: [column.name for column in library.get(name).columns] for name in ("causes_of", "conversation_of", "compare")
    }
    assert len(found) == 11
    assert all(isinstance(table, pa.Table) for table in found)
    assert found[0].column_names == declared["causes_of"]
    assert found[1].column_names == declared["conversation_of"]
    assert found[8].column_names == declared["compare"]
    assert found[0]["cause"].to_pylist() == ["evicted.slots", "first_seen.new_tokens"]
    assert found[1]["turn_id"].to_pylist() == ["c03-t03", "c03-t04"]
    assert found[2]["cause"].to_pylist() == ["evicted.slots"]
    assert found[5]["evictor_conversation"].to_pylist() == ["b"]
    assert found[10].num_rows > 0


@pytest.mark.parametrize("item", ASKED, ids=lambda item: item.name)
def test_everything_that_is_listed_can_be_asked(store: MemoryStore, item: library.SqlObject) -> None:
    given = {name: value for name, value in GIVEN.items() if name in item.arguments}
    assert frames.ask(store, item.name, **given).column_names == [column.name for column in item.columns]


@pytest.mark.parametrize("narrower", ["replica", "model", "tenant", "conversation"])
@pytest.mark.parametrize("item", NARROWED, ids=lambda item: item.name)
def test_every_answer_that_can_be_narrowed_is(item: SqlObject, narrower: str) -> None:
    """To what all turns have it is the same; to what none has, the same as of an engine that is not there."""
    scene = Scene(replica="every")
    of: dict[str, Any] = {"model": "every", "tenant": "every"}
    for number in range(2):
        keys = chain(f"{number}:", 8)
        said = [(f"It is 10:0{number}.", None, "system"), ("Hello", None, "user")]
        scene.serve(f"e-{number}", "every", 128, keys, 20.0 * number, publish=keys, messages=said, **of)
    scene.recorder.evicted(keys, 16, reason="lease_expired", at_ns=scene.at(50))
    scene.serve("e-2", "every", 128, keys, 60.0, **of)
    store = scene.store()
    given = {name: value for name, value in (GIVEN | {"most": 10}).items() if name in item.arguments}

    def asked(over: Range) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = frames.within(store, (item.name,), over, **given)[item.name].to_pylist()
        return rows

    everything = asked(Range())
    assert asked(Range(**{narrower: "every"})) == everything
    assert asked(Range(**{narrower: "nobody"})) == asked(Range(engine="nobody")) != everything


def test_every_argument_is_explained_and_none_else() -> None:
    assert set(ARGUMENTS) == {name for item in ASKED for name in item.arguments}


def test_a_range_narrows_and_is_checked(store: MemoryStore) -> None:
    def turns(over: Range | None) -> list[str]:
        return [row["turn_id"] for row in frames.rows(store, "list_turns", over, most=10)]

    assert turns(None) == turns(Range()) == ["c03-t03", "b-1", "c03-t04"]
    assert turns(Range(run="after")) == ["c03-t04"]
    with pytest.raises(QueryError, match=r"There is no run 'aftr' in memory\. There are: after"):
        turns(Range(run="aftr"))
    empty = MemoryStore()
    assert frames.ask(empty, "list_turns", most=10).num_rows == 0
    assert frames.health(empty).num_rows == 0
    with pytest.raises(QueryError, match="memory holds no turns yet"):
        frames.ask(empty, "lost_by_cause", Range())


def test_what_a_macro_cannot_mean_is_refused(store: MemoryStore) -> None:
    with pytest.raises(QueryError, match=r"There is no cause 'evicted\.slot'\. Is one of these meant: evicted\.slots, "):
        frames.ask(store, "turns_page", the_cause="evicted.slot", rows_each=10, page_number=1)
    with pytest.raises(QueryError, match="There is no axis nope: publishes, conversations, turns, tokens or seconds"):
        frames.ask(store, "retention_curve", axis="nope")
    with pytest.raises(QueryError, match="Nothing is compared by nope: run, version or engine"):
        store.query("from compare('nope', 'a', 'b', null, null, null, null, null, null)")


def test_several_at_once_get_each_what_it_takes(store: MemoryStore) -> None:
    found = frames.ask_all(store, ("bounds_in", "evictions_by_reason"), Range(), interval_seconds=1)
    assert found["bounds_in"]["interval_seconds"].to_pylist() == [1.0]
    assert found["evictions_by_reason"]["evictions"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("name", "over", "given", "said"),
    [
        ("turnz", None, {}, "There is no table, view or macro 'turnz'. Is one of these meant: turns"),
        ("_turns_in", None, {}, "There is no table, view or macro '_turns_in'."),
        ("spans; drop table spans", None, {}, "There is no table, view or macro"),
        ("retention_curve", None, {}, "retention_curve needs axis: what passed between"),
        ("retention_curve", None, {"axes": "turns"}, "retention_curve has no argument 'axes'. It takes axis, the_start."),
        (
            "list_turns",
            None,
            {"the_model": "m", "most": 1},
            "list_turns has no argument 'the_model'. It takes most, the_conversation",
        ),
        ("lost_by_cause", None, {"since": 0}, "lost_by_cause has no argument 'since'. It takes none."),
        ("turns", Range(), {}, "turns is not about a range."),
    ],
)
def test_what_cannot_be_asked_is_refused(
    store: MemoryStore, name: str, over: Range | None, given: dict[str, object], said: str
) -> None:
    with pytest.raises(QueryError, match=re.escape(said)):
        frames.ask(store, name, over, **given)


def test_ids_of_turns_and_conversations(store: MemoryStore) -> None:
    assert frames.conversation(store, "c03-t04").equals(frames.conversation(store, "agent-3"))
    with pytest.raises(UnknownConversationError, match="There is no conversation 'agent-4' in memory") as unknown:
        frames.conversation(store, "agent-4")
    assert unknown.value.nearest[0] == "agent-3"
    with pytest.raises(UnknownTurnError, match="There is no turn 'c03-t05' in memory"):
        frames.turn(store, "c03-t05")


def test_the_frames_of_answers_that_are_made_in_python(store: MemoryStore) -> None:
    answer = whatif(store)
    curves = frames.whatif(answer)
    assert curves.num_rows == len(answer.curve) > 0
    assert curves["hit_tokens"].to_pylist() == [outcome.hit_tokens for outcome in answer.curve]
    sides = comparing.sides("before", "after")
    assert frames.compare(store, sides).to_pylist() == comparing.compare(store, sides)
