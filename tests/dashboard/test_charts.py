"""The charts as data: what a row becomes, and that parts keep their colours, units and gaps."""

from typing import Any

from turnlens.dashboard.charts import parts, slots
from turnlens.dashboard.charts import turns as charts


def span(name: str, start: float, seconds: float | None, **more: Any) -> dict[str, Any]:
    empty = {"attempt": None, "tokens": None, "outcome": None, "reason": None, "tier": None}
    return {"name": name, "start_seconds": start, "seconds": seconds} | empty | more


def test_one_bar_ends_where_the_prompts_end() -> None:
    figure = charts.source_bar(
        [
            {"source": "hit", "tokens": 300, "of_tokens": 400, "share_ratio": 0.75},
            {"source": "computed", "tokens": 100, "of_tokens": 400, "share_ratio": 0.25},
        ]
    )
    hit, computed = figure["data"]
    assert (hit["x"], hit["marker"]["color"], "pattern" in hit["marker"]) == ([300], "#009E73", False)
    assert (computed["x"], computed["marker"]["pattern"]["shape"]) == ([100], "/")
    assert hit["customdata"] == [["", "hit<br>300 tokens"]]
    assert figure["layout"]["xaxis"]["range"] == [0, 400]
    assert figure["layout"]["xaxis"]["title"]["text"] == "prompt [tokens]"


def test_a_turn_whose_end_has_not_arrived_leaves_a_gap_and_a_mark() -> None:
    unknown = {f"{source}_tokens": None for source in parts.COLOURS}
    rows = [
        unknown
        | {"turn_number": 1, "turn_id": "t-1", "ask": "t-1", "prompt_tokens": None, "ttft_seconds": None, "complete": False}
        | {"verdict": "incomplete", "main_cause": "unobserved.events_missing", "incomplete_because": "turn_not_finished"}
    ]
    first_token, broken = charts.turn_strip(rows)["data"]
    assert (first_token["name"], first_token["y"]) == ("first token", [None])
    assert (broken["name"], broken["x"], broken["y"]) == ("incomplete turn", [1], [0])
    assert broken["customdata"] == [
        ["t-1", "turn_not_finished<br>turn 1: t-1<br>incomplete · unobserved.events_missing"],
    ]


def test_lasting_spans_are_bars_and_moments_are_marks() -> None:
    figure = charts.waterfall(
        [
            span("turn", 0.0, 2.0),
            span("snapshot.publish", 0.5, 0.0, tokens=1_600, outcome="skipped", reason="busy"),
            span("snapshot.publish", 0.6, 0.2),
            span("snapshot.lease", 1.5, 0.2),
            span("snapshot.evict", 0.1, None, tier="device"),
            span("<i>custom</i>", 0.3, 0.4),
        ],
        ttft_seconds=1.0,
        near=True,
    )
    drawn = [(trace["type"], trace["y"], trace["x"]) for trace in figure["data"]]
    assert drawn == [
        ("bar", ["turn"], [2.0]),
        ("bar", ["publish"], [0.2]),
        ("scatter", ["publish"], [0.5]),
        ("scatter", ["eviction"], [0.1]),
        ("bar", ["&lt;i&gt;custom&lt;/i&gt;"], [0.4]),
    ]
    assert (
        figure["data"][2]["customdata"][0][1] == "snapshot.publish<br>after 500 ms, took 0 ms<br>1,600 tokens<br>skipped, busy"
    )
    assert figure["data"][3]["customdata"][0][1] == "snapshot.evict<br>after 100 ms, took unknown<br>tier device"
    assert figure["layout"]["xaxis"]["range"] == [0, 1.08]
    # The lease began after what is shown.
    assert figure["layout"]["yaxis"]["categoryarray"][::-1] == ["turn", "publish", "eviction", "&lt;i&gt;custom&lt;/i&gt;"]
    assert [said["text"] for said in figure["layout"]["annotations"]] == ["span", "first token"]


def test_a_prompt_of_unknown_length_has_no_end() -> None:
    figure = charts.prompt_bar([], None)
    assert figure["data"] == []
    assert "range" not in figure["layout"]["xaxis"]


def _pair(evictor: str, victim: str, seconds: float) -> dict[str, Any]:
    return {
        "evictor_conversation": evictor,
        "victim_conversation": victim,
        "evictions": 1,
        "tokens_evicted": 16,
        "losing_turns": 1,
        "lost_seconds": seconds,
    }


def test_who_took_whose_place_is_said_of_conversations_that_are_numbers_too() -> None:
    """Ticks go by names: at place 2 Plotly would look for a conversation called 2."""
    figure = slots.blame([_pair("7", "2", 4.0), _pair("7", "1", 3.0), _pair("2", "0", 2.0)], "lost_seconds", "seconds")
    (heat,) = figure["data"]
    assert (heat["x"], heat["y"]) == (["2", "1", "0"], ["7", "2"])
    assert heat["z"] == [[4.0, 3.0, None], [None, None, 2.0]]
    for axis, names in (("xaxis", heat["x"]), ("yaxis", heat["y"])):
        assert figure["layout"][axis]["type"] == "category"
        assert (figure["layout"][axis]["tickvals"], figure["layout"][axis]["ticktext"]) == (names, names)


def test_an_incomplete_turn_is_marked_in_a_small_chart() -> None:
    turn = dict.fromkeys(("hit_tokens", "restored_tokens", "recomputed_tokens", "new_tokens", "computed_tokens"))
    turn |= {"unobserved_tokens": None, "prompt_tokens": 900, "main_cause": None, "conversation_id": "c", "place": 1}
    turn |= {"turn_number": 1, "turn_id": "c-1", "verdict": "incomplete", "complete": False, "ask": "c-1"}
    (mark,) = charts.small_multiples([turn | {"incomplete_because": "not_ended"}])["data"]
    assert (mark["name"], mark["x"], mark["y"]) == ("incomplete turn", [1], [900])
    assert mark["customdata"][0][0] == "c-1"
