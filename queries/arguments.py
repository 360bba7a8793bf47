"""What the arguments of the macros mean, each declared once: for the page of all SQL, and for the calls of ``frames``."""

from typing import NamedTuple

# The first arguments of every macro over a range of turns, in their order.
RANGE = ("the_engine", "the_run", "since", "until")
# The last arguments of those that can be narrowed further; they may be left away.
NARROWER = ("the_replica", "the_model", "the_tenant", "the_conversation")


class Argument(NamedTuple):
    """What an argument says, and what null says; without that it must be given."""

    brief: str
    null: str | None = None


ARGUMENTS = {
    "the_engine": Argument("only turns of this engine", "of any"),
    "the_run": Argument("only turns of this run", "of any"),
    "the_replica": Argument("only turns of this copy of an engine", "of any"),
    "the_model": Argument("only turns that asked for this model", "for any"),
    "the_tenant": Argument("only turns on behalf of this tenant", "of any"),
    "since": Argument("only turns that arrived from then on [wall ns]", "from the first on"),
    "until": Argument(
        "only turns that arrived before, or only the stream before [wall ns]", "up to the last turn; of the stream nothing"
    ),
    "the_conversation": Argument(
        "only turns of this conversation, by its id", "of any; where it is asked for by name, of none"
    ),
    "the_verdict": Argument("only turns with this verdict", "with any"),
    "the_cause": Argument("only turns with this cause, the main one or that of a part of the prompt", "with any"),
    "trace": Argument("a turn's `trace_id`"),
    "span": Argument("a turn's `span_id`; no two turns have the same of both"),
    "at_ns": Argument("the turn's arrival, `start_ns`: makes the search quick [wall ns]", "not known"),
    "until_ns": Argument("when the last of its spans began, at most: makes the search quick [wall ns]", "not known"),
    "conversation": Argument("the turn's conversation: makes the search quick", "not known"),
    "id": Argument("an id, or what may be meant for one"),
    "most": Argument("at most so many rows", "all"),
    "steps": Argument("into about so many intervals"),
    "rows_each": Argument("how many rows a page has"),
    "page_number": Argument("which page, from 1"),
    "ordered_by": Argument("`latest`, `recomputed`, `restored`, `slowest` or `longest`"),
    "by_what": Argument("the most of `evictions` or of `tokens_evicted` first", "the most of `lost_seconds`"),
    "interval_seconds": Argument("length of an interval [s]", "a twentieth of the range"),
    "seconds": Argument("length of an interval [s]"),
    "axis": Argument("what passed between: `publishes`, `conversations`, `turns`, `tokens` or `seconds`"),
    "names_of": Argument("what `a` and `b` are names of: `run`, `version` or `engine`", "only times tell the sides apart"),
    "a": Argument("the name of one side", "only times tell the sides apart"),
    "b": Argument("the name of the other", "only times tell the sides apart"),
    "a_since": Argument("as `since`, of side a", "from the first on"),
    "a_until": Argument("as `until`, of side a", "up to the last"),
    "b_since": Argument("as `since`, of side b", "from the first on"),
    "b_until": Argument("as `until`, of side b", "up to the last"),
    "as_of": Argument("the present, to judge silence from [wall ns]", "the last that anybody was heard of"),
    "the_start": Argument("only of this engine start, as in `resource_id`", "of any"),
    "resource": Argument("an engine start, as in `resource_id`"),
    "object": Argument("the name of a table or a view"),
}
