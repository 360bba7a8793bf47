"""One turn: its figures, its ranges, the words of the command line, the other side, the evidence."""

from collections.abc import Callable
from pathlib import Path

import dashboard_scenes as scenes
from memory_store import Scene

from turnlens.dashboard import explain_text
from turnlens.queries import connect
from turnlens.queries.explain import explain


def test_a_turn_that_lost_its_prefix(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("turn", turn="a-2")
    texts = app.texts()
    assert texts[:2] == ["a-2", "2026-09-21 14:13:26 · conversation agent-a · engine test · replica r0 · status stop"]
    assert app.figures() == {
        "Prompt [tokens]": "5,000",
        "First token after": "920 ms",
        "of that: queue": "100 ms",
        "of that: restore": "200 ms",
        "of that: compute": "620 ms",
        "Finished after": "1.2 s",
        "hit": "32.0 %",
        "restored": "16.0 %",
        "recomputed": "32.0 %",
        "new": "20.0 %",
    }
    assert not app.page.warning


def test_the_words_are_those_of_the_command_line(open_app: Callable, agents_file: Path) -> None:
    store = connect(agents_file)
    try:
        printed = {turn: explain_text.render(explain(store, turn)) for turn in ("a-2", "b-3", "c-1", "a-1")}
    finally:
        store.close()
    for turn, text in printed.items():
        app = open_app(agents_file).at("turn", turn=turn)
        assert app.page.code[0].value == text.rstrip("\n")
        shown = "\n".join(app.texts()).split("\n")
        # Between the table of sources and the evidence every line of the command line stands on the page too, in its order.
        said = [line.strip() for part in text.rstrip("\n").split("\n\n")[2:-1] for line in part.split("\n")]
        start = shown.index(said[0])
        assert shown[start : start + len(said)] == said


def test_the_prompt_is_drawn_in_its_ranges(open_app: Callable, agents_file: Path) -> None:
    prompt, _, _ = open_app(agents_file).at("turn", turn="a-2").charts()
    assert [(trace["name"], trace["base"], trace["x"]) for trace in prompt["data"]] == [
        ("hit", [0], [1_600]),
        ("restored", [1_600], [800]),
        ("recomputed", [2_400], [1_600]),
        ("new", [4_000], [1_000]),
    ]
    assert prompt["layout"]["xaxis"]["range"] == [0, 5_000]
    assert prompt["data"][2]["customdata"][0][1] == (
        "recomputed: 2,400-4,000<br>evicted.slots, observed<br>left by turn a-1<br>evicted for turn b-2"
    )


def test_the_waterfall_has_a_lane_a_kind_of_span(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("turn", turn="b-2")
    _, _, near = app.charts()
    assert near["layout"]["yaxis"]["categoryarray"] == ["eviction", "prefill", "queue", "turn"]
    evictions = near["data"][-1]
    assert (evictions["type"], evictions["mode"], evictions["x"]) == ("scatter", "markers", [0.05])
    assert near["layout"]["xaxis"]["range"][0] == 0
    app.page.segmented_control("span").select("the whole turn")
    _, _, whole = app.again().charts()
    assert whole["layout"]["yaxis"]["categoryarray"] == ["eviction", "publish", "prefill", "queue", "turn"]
    assert "range" not in whole["layout"]["xaxis"]


def test_the_other_side_is_one_link_away(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("turn", turn="a-2")
    assert "Evicted this prompt, needing its room" in app.texts()
    assert "b-2 of agent-b · 2,400 tokens" in app.texts()
    links = [(item.proto.label, item.proto.query_string) for item in app.page.get("page_link")]
    assert ("Open", "turn=b-2") in links
    assert ("Its conversation, turn by turn", "conversation=agent-a") in links
    evictor = app.at(turn="b-2")
    assert evictor.texts()[0] == "b-2"
    assert "Was evicted, so that this turn had room" in evictor.texts()
    assert "a-1 of agent-a · 2,400 tokens" in evictor.texts()


def test_of_many_on_the_other_side_it_says_how_many_more(open_app: Callable, tmp_path: Path) -> None:
    scene = Scene(slots=6)
    for number in range(6):
        scene.serve(f"a-{number}", f"agent-{number}", 20, [f"a{number}"], 3.0 * number, publish=[f"a{number}"])
    turn = scene.recorder.turn("b-1", prompt_tokens=96, prefix=list("bcdefg"), prefix_at=16, at_ns=scene.at(30))
    for number in range(6):
        scene.recorder.evicted(f"a{number}", 16, reason="slots", for_turn=turn, at_ns=scene.at(30.1))
    turn.admitted(0, at_ns=scene.at(30.2))
    turn.computed(0, 96, at_ns=scene.at(31))
    turn.first_token(at_ns=scene.at(31))
    turn.finished("stop", at_ns=scene.at(32))
    app = open_app(scenes.file_store(tmp_path / "many.duckdb", scenes.finished_spans(scene))).at("turn", turn="b-1")
    victims = [text for text in app.texts() if text.endswith(" · 16 tokens")]
    assert victims == [f"a-{number} of agent-{number} · 16 tokens" for number in range(4)]
    assert "and 2 more" in [item.value for item in app.page.caption]


def test_the_causes_row_by_row(open_app: Callable, agents_file: Path) -> None:
    rows = open_app(agents_file).at("turn", turn="a-2").table(0)
    assert [(row["start_token"], row["end_token"], row["source"], row["cause"], row["evicted_by_turn"]) for row in rows] == [
        (0, 1_600, "hit", "provided.turn", None),
        (1_600, 2_400, "restored", "evicted.slots", "b-2"),
        (2_400, 4_000, "recomputed", "evicted.slots", "b-2"),
        (4_000, 5_000, "new", "first_seen.new_tokens", None),
    ]
    assert rows[1]["evidence"].startswith("scheduler.admit ")
    assert "snapshot.evict " in rows[1]["evidence"]


def test_an_incomplete_turn_says_so_and_why(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("turn", turn="c-1")
    assert [item.value for item in app.page.warning] == [
        "This turn is incomplete: nothing is guessed, and it is left out of sums."
    ]
    assert "Why incomplete: positions_unobserved." in app.texts()
    assert app.figures()["unobserved"] == "50.0 %"
    assert app.figures()["First token after"] == "—"


def test_a_turn_is_found_by_each_of_its_ids(open_app: Callable, agents_file: Path) -> None:
    store = connect(agents_file)
    try:
        (turn,) = store.query("select trace_id, span_id from turns where turn_id = 'a-2'").to_pylist()
    finally:
        store.close()
    for name in ("a-2", turn["trace_id"], turn["span_id"]):
        app = open_app(agents_file).at("turn")
        app.page.text_input("ask").input(name)
        assert app.again().texts()[0] == "a-2"
        assert app.page.query_params == {"turn": name}


def test_an_unknown_turn_names_the_nearest(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("turn", turn="a-22")
    assert [item.value for item in app.page.warning] == ["This id does not name one turn."]
    texts = app.texts()
    assert texts[0] == f"There is no turn 'a-22' in {agents_file}."
    assert texts[1] == "a-2"
    links = [item.proto.query_string for item in app.page.get("page_link")]
    assert links[0] == "turn=a-2"


def test_no_turn_asked_for(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("turn")
    assert [item.value for item in app.page.info] == ["Name a turn above, or choose one from the list."]
