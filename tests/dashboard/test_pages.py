"""The pages besides conversations and turns: what they show of a store that a person can add up; their filters; stores that hold
next to nothing."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import dashboard_scenes as scenes
import duckdb
import pytest
from memory_store import Scene
from on_page import headers, traces
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from turnlens.collectors import arriving
from turnlens.collectors.decode_metrics import decode_metrics
from turnlens.collectors.scraping import request_of
from turnlens.collectors.targets import Target

DASHBOARD = Path(__file__).parents[2] / "dashboard"
PAGES = ["overview", "conversations", "turn", "slots", "whatif", "compare", "cost", "sql", "health"]
OVER_TURNS = [page for page in PAGES if page not in ("turn", "sql")]


@pytest.mark.parametrize("file", sorted((DASHBOARD / "pages").glob("*.py")), ids=lambda file: file.stem)
def test_pages_hold_no_sql_and_no_arithmetic(file: Path) -> None:
    """Numbers are the macros': a page may only count and slice what it shows."""
    tree = ast.parse(file.read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert [text for text in texts if re.search(r"\bselect\b.*\bfrom\b|^from \w+\(", text)] == []
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.BinOp | ast.AugAssign) and _is_sum(node)]
    assert found == []


def _is_sum(node: ast.BinOp | ast.AugAssign) -> bool:
    """Not of sets and dictionaries, nor a difference between two counts of rows."""
    if isinstance(node.op, ast.BitOr | ast.BitAnd):
        return False
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return not (isinstance(node.op, ast.Sub) and "len" in names)


# -- overview ---------------------------------------------------------------------------------------------------------------


def test_overview(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at()
    assert app.figures() == {"hit": "50.8 %", "restored": "3.6 %", "recomputed": "7.3 %", "new": "38.3 %"}
    deltas = {item.label: item.delta for item in app.page.metric}
    # Of 13,600 tokens of the earlier half 3,584 were hit, of 8,400 of the later 7,584.
    assert deltas["hit"] == "+63.9 points"
    assert headers(app) == [
        "Over time",
        "Time to the first token, by verdict",
        "Why: time lost by cause",
        "Who is affected",
        "What to do",
    ]
    over_time, first_tokens, lost = app.charts()
    assert sum(filter(None, traces(over_time)["hit"]["y"])) == 11_168
    assert over_time["layout"]["yaxis"]["title"]["text"] == "prompt [tokens]"
    assert [trace["name"] for trace in first_tokens["data"][:-1]] == ["hit", "recomputed", "cold"]
    assert first_tokens["data"][1]["median"] == [0.92]
    assert lost["data"][0]["y"] == ["not_cache.queue", "evicted.slots", "unobserved.events_missing"]
    assert [row["conversation_id"] for row in app.table(0)] == ["agent-b", "agent-a"]
    assert any("More capacity to run" in text for text in app.texts())


def test_overview_narrowed_to_one_conversation(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at(conversation="agent-a")
    assert "Only conversation agent-a" in app.texts()
    assert app.figures()["hit"] == "45.8 %"  # 6,592 of 14,400
    assert "Of all turns of these times: what engines share is not narrowed." in [item.value for item in app.page.caption]


def test_the_strip_says_whether_the_tool_is_well(open_app: Callable, agents_file: Path, tmp_path: Path) -> None:
    """An incomplete turn that its client left is no fault; an offer of which nobody says how it ended is one."""
    assert [item.value for item in open_app(agents_file).at().page.success] == [
        "Turnlens is well: nothing was dropped, nobody is silent."
    ]
    story = scenes.Story()
    at = story.scene.at
    turn = story.scene.recorder.turn("a-1", "agent-a", prompt_tokens=1_000, at_ns=at(1))
    turn.admitted(offered_tokens=512, tier="disk", at_ns=at(1.1))
    turn.computed(512, 1_000, at_ns=at(2))
    turn.finished("stop", at_ns=at(3))
    flawed = open_app(scenes.file_store(tmp_path / "flawed.duckdb", story.spans())).at()
    assert [item.value for item in flawed.page.error] == ["About Turnlens itself: 3 bad findings, 0 warnings."]
    assert any(text.startswith("test: incomplete_turns, offer_never_finalized: 1 of 1 turn") for text in flawed.texts())


# -- slots and memory -------------------------------------------------------------------------------------------------------


def test_slots(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("slots")
    texts = app.texts()
    assert app.table(0) == [
        {"engine": "test", "replica": "r0", "turns": 7, "total_slots": 4, "pool_tokens": 100_000}
        | {name: app.table(0)[0][name] for name in ("runs", "limited_by", "told_by", "from_ns", "until_ns", "resource_id")}
    ]
    assert any("1 eviction for slots, 2,400 tokens lost" in text for text in texts)
    assert headers(app) == [
        "How full they were",
        "Evicted while memory was free",
        "How long it had lived",
        "Who took whose place",
        "How much may come between",
    ]
    occupancy, while_free, *_ = app.charts()
    assert {trace["name"] for trace in occupancy["data"]} >= {"there is", "taken, by the engine", "evictions for slots"}
    assert while_free["data"][0]["name"] == "while most of the memory was free"
    assert while_free["data"][0]["x"] == [1]
    assert app.table(1)[0]["evictor_conversation"] == "agent-b"
    assert app.table(1)[0]["victim_conversation"] == "agent-a"


def test_what_passes_between_is_chosen(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("slots")
    app.page.selectbox("axis").select("turns")
    app.again()
    assert app.page.query_params == {"axis": "turns"}
    assert app.charts()[-1]["layout"]["xaxis"]["title"]["text"] == "passed in between [other turns]"


def test_nothing_is_known_of_slots(open_app: Callable, tmp_path: Path) -> None:
    app = open_app(scenes.file_store(tmp_path / "empty.duckdb", [])).at("slots")
    assert [item.value for item in app.page.info] == ["No turn has arrived in this store yet."]
    assert "turnlens serve --scrape NAME=http://HOST:PORT/metrics" in [item.value for item in app.page.code]


def test_gauges_alone(open_app: Callable, tmp_path: Path) -> None:
    """Flare's metrics, and nothing else: slots against memory all the same, and no turn is made up."""
    file = scenes.file_store(tmp_path / "gauges.duckdb", [])
    page = "# TYPE flare_free_snapshots gauge\nflare_free_snapshots 0\n# TYPE flare_cached_checkpoints gauge\n"
    page += "flare_cached_checkpoints 32\n# TYPE flare_free_kv_tokens gauge\nflare_free_kv_tokens 22226688\n"
    with duckdb.connect(str(file)) as connection:
        for second in range(3):
            request = request_of(Target("ring0", "http://ring0/metrics"), page, Scene.at(5 * second))
            batch = decode_metrics(request, Scene.at(0))
            known = {row[0] for row in connection.execute("select resource_id from resources").fetchall()}
            arriving.insert_resources(connection, [batch], known)
            arriving.insert_points(connection, [batch])
    app = open_app(file).at("slots")
    (start,) = app.table(0)
    assert (start["engine"], start["total_slots"], start["told_by"]) == ("ring0", 32, "gauges")
    # A sample every five seconds, in intervals of one.
    assert (
        app.texts()[0]
        == "Unknown in 8 of 11 intervals of 1.0 s, slot-bound in 3. At the end slots are the limit, memory is not."
    )
    assert headers(app) == ["How full they were"]


def test_slots_and_what_if_are_about_the_same_engine_start(open_app: Callable, tmp_path: Path) -> None:
    """The latest that served turns, though the earlier had more of them; one that was chosen goes along in every link."""
    earlier, later = (scenes.Story(engine=engine, ids=RandomIdGenerator()) for engine in ("earlier", "later"))
    for number in range(1, 4):
        earlier.turn(f"e-{number}", "e", 1_600)
    later.now = 60.0
    later.turn("l-1", "l", 1_600)
    app = open_app(scenes.file_store(tmp_path / "two.duckdb", [*earlier.spans(), *later.spans()]))
    first, second = app.at("slots").page.selectbox(key="start").options
    assert (first.partition(":")[0], second.partition(":")[0]) == ("earlier/r0", "later/r0")
    slots = app.page.selectbox(key="start").value
    assert app.at("whatif").page.selectbox(key="start").value == slots
    assert app.page.selectbox(key="start").options == ["earlier/r0, 3 turns", "later/r0, 1 turn"]
    app.page.selectbox(key="start").select_index(0)
    assert app.again().page.query_params["start"] != slots
    links = [item.proto.query_string for item in app.page.get("page_link")]
    assert [link for link in links if f"start={app.page.query_params['start']}" not in link] == []


# -- what if, compare, cost, health -----------------------------------------------------------------------------------------


def test_whatif(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("whatif")
    assert "test/r0, 7 turns" in app.texts()
    (chart,) = app.charts()
    names = [trace["name"] for trace in chart["data"]]
    assert names[:3] == ["lru_leaf", "greedy_dual_size", "reuse stops growing"]
    assert any(text.startswith("Reuse stops growing at ") for text in app.texts())
    narrowed = open_app(agents_file).at("whatif", conversation="agent-a")
    assert {row["seen_tokens"] for row in narrowed.table(0)} == {8_992}  # 4,000 and 4,992


def test_many_turns_are_replayed_when_it_is_asked_for(
    open_app: Callable, agents_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlens.queries.whatif.remedies.AT_ONCE", 3)
    app = open_app(agents_file).at("whatif")
    assert [item.value for item in app.page.info] == ["7 turns: replaying them takes a minute or more."]
    assert app.charts() == []
    app.page.button("replay").click()
    assert len(app.again().charts()) == 1


def test_compare_two_runs(open_app: Callable, mixed_file: Path) -> None:
    app = open_app(mixed_file).at("compare")
    assert app.page.selectbox("by").value == "run"
    assert (app.page.selectbox("side-a").value, app.page.selectbox("side-b").value) == ("r1", "r2")
    assert app.figures() == {"A [turns at any time]": "1", "B [turns at any time]": "1"}
    rows = {row["figure"]: row for row in app.table(0)}
    assert (rows["prompt_tokens"]["A"], rows["prompt_tokens"]["B"]) == ("1,600", "3,200")
    app.page.selectbox("side-b").select("r1")
    same = app.again()
    assert same.page.query_params == {"b": "r1"}
    assert [item.value for item in same.page.info] == ["A and B are the same: choose another one."]


def test_runs_are_compared_whole_though_times_are_automatic(
    open_app: Callable, mixed_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlens.dashboard.filters._QUICK_TURNS", 1)
    rows = {row["figure"]: row for row in open_app(mixed_file).at("compare").table(0)}
    assert (rows["prompt_tokens"]["A"], rows["prompt_tokens"]["B"]) == ("1,600", "3,200")


def test_compare_two_halves(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("compare")
    assert app.page.selectbox("by").value == "half"
    rows = {row["figure"]: row for row in app.table(0)}
    assert (rows["prompt_tokens"]["A"], rows["prompt_tokens"]["B"]) == ("13,600", "8,400")
    none = open_app(agents_file).at("compare", by="run")
    assert [item.value for item in none.page.info] == ["No two runs are here to be compared."]


def test_cost(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("cost")
    assert headers(app)[:2] == ["How fast engines compute and restore", "What a snapshot costs"]
    (row,) = app.table(0)
    # 5,000 tokens a second in the scene, and 0.1 s at none.
    assert row["prefill_tokens_per_second"] == pytest.approx(5_000)
    assert row["restore_tokens_per_second"] is None


def test_health(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("health")
    levels = {"bad": "0", "warn": "0", "ok": str(len(app.table(0)))}
    assert app.figures() == {"complete turns": "6", "incomplete turns": "1"} | levels
    figures = {row["topic"]: row["figure"] for row in app.table(0)}
    assert figures["complete_turns"] == "6 of 7 turns"
    assert figures["incomplete_turns"].startswith("positions_unobserved: 1 of 7 turns (14.3 %), 1 of them left by their client")


# -- SQL --------------------------------------------------------------------------------------------------------------------


def test_sql(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("sql", sql="select verdict, count(*) as turns from turns group by all order by all")
    assert app.table(0) == [
        {"verdict": "cold", "turns": 2},
        {"verdict": "hit", "turns": 3},
        {"verdict": "incomplete", "turns": 1},
        {"verdict": "recomputed", "turns": 1},
    ]
    assert [item.value for item in app.page.caption if "row" in item.value] == ["4 rows."]
    (chart,) = app.charts()
    assert (chart["data"][0]["x"], chart["data"][0]["y"]) == (["cold", "hit", "incomplete", "recomputed"], [2, 3, 1, 1])
    app.page.selectbox("example").select("What was recomputed, by its main cause")
    again = app.again()
    assert again.page.query_params["sql"].startswith("select main_cause, count(*) as turns")
    assert again.table(0)[0]["main_cause"] == "evicted.slots"


def test_every_example_is_answered(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("sql")
    for example in app.page.selectbox("example").options:
        app.page.selectbox("example").select(example)
        app.again()
        assert not app.page.error, example


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from nobody", "nobody"),
        ("drop table spans", "only"),
        ("selec", "selec"),
        ("select 1; select 2", "one statement"),
        ("from read_csv('/etc/passwd')", "read_csv is refused"),
    ],
)
def test_sql_that_is_refused(open_app: Callable, agents_file: Path, sql: str, said: str) -> None:
    app = open_app(agents_file).at("sql", sql=sql)
    assert [item.value for item in app.page.error] == ["This was not answered."]
    assert said.lower() in " ".join(app.texts()).lower()


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("select [1, 2] as a, {'b': 1} as c, null as d", {"a": "[1, 2]", "c": "{'b': 1}", "d": None}),
        ("select 1 as a, 2 as a", {"a": 1, "a_1": 2}),
        ("from turns where false", None),
        ("select date '0001-01-01' - 400000 as a, 1 as b", {"a": "-1095-11-03", "b": 1}),
    ],
)
def test_results_of_any_shape(open_app: Callable, agents_file: Path, sql: str, row: dict | None) -> None:
    app = open_app(agents_file).at("sql", sql=sql)
    assert not app.page.error
    assert app.table(0) == ([] if row is None else [row])


@pytest.mark.parametrize(
    "column",
    ["'a'::blob", "'101'::bit", "date '0001-01-01' - 400000", "interval 1 day", "uuid()", "1.5::decimal(9, 2)", "[1]", "null"],
)
def test_results_that_are_drawn(open_app: Callable, agents_file: Path, column: str) -> None:
    app = open_app(agents_file).at("sql", sql=f"select {column} as x, i from range(3) as t(i)")
    assert not app.page.error
    assert len(app.charts()) == 1


def test_what_can_be_asked(open_app: Callable, agents_file: Path) -> None:
    app = open_app(agents_file).at("sql", object="retention_curve")
    assert "from retention_curve(the_engine, the_run, since, until, axis, the_start)" in [item.value for item in app.page.code]
    assert {"passed_from", "reuse_ratio"} <= {row["name"] for row in app.table(-1)}


# -- stores that hold next to nothing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", OVER_TURNS)
def test_an_empty_store(open_app: Callable, tmp_path: Path, page: str) -> None:
    app = open_app(scenes.file_store(tmp_path / "empty.duckdb", [])).at(page)
    assert [item.value for item in app.page.info]
    assert app.charts() == []


@pytest.mark.parametrize("page", PAGES)
def test_only_broken_turns(open_app: Callable, tmp_path: Path, page: str) -> None:
    app = open_app(scenes.file_store(tmp_path / "broken.duckdb", scenes.only_broken())).at(page)
    assert not [item.value for item in app.page.error if "did not answer" in item.value]


@pytest.mark.parametrize("page", PAGES)
def test_a_filter_that_nothing_matches(open_app: Callable, agents_file: Path, page: str) -> None:
    app = open_app(agents_file).at(page, engine="nobody", run="none", since="2030-01-01T00:00:00Z")
    assert not [item.value for item in app.page.error if "did not answer" in item.value]
