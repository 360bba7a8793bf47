-- One row an engine and a reason why turns are incomplete: how many, since when, and what to do. A turn can have several reasons. Of a
-- turn whose client left, what had not been computed by then was not observed, and nothing is wrong with it: ``aborted_turns``.
-- Turns that have not ended are in unfinished_turns.
--
-- Example: from incomplete_turns(null, null, null, null) where 2 of 50 turns were open when the recorder's buffer was full:
--
--   reason           turns  of_turns  share_ratio  next_step
--   records_dropped  2      50        0.04         Raise TURNLENS_BUFFER ...
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   reason VARCHAR -- why
--   turns BIGINT -- turns with this reason
--   aborted_turns BIGINT -- of those, turns that their client left
--   of_turns BIGINT -- all turns of this engine and replica in the range
--   share_ratio DOUBLE -- turns / of_turns
--   first_ns BIGINT -- arrival of the first of them [ns]
--   last_ns BIGINT -- arrival of the last [ns]
--   example_turn VARCHAR -- the last of them
--   meaning VARCHAR -- what the reason says
--   next_step VARCHAR -- what to do
create or replace macro incomplete_turns(the_engine, the_run, since, until) as table
with every as (
  from _verdicts_in(the_engine, the_run, since, until)
),
counts as (
  select engine, replica, count(*) as of_turns
  from every
  group by engine, replica
),
reasons as (
  select engine, replica, turn_id, start_ns, status, unnest(list_distinct(incomplete_reasons)) as reason
  from every
  where not complete and end_ns is not null
),
grouped as (
  select
    engine,
    replica,
    reason,
    count(*) as turns,
    count(*) filter (status in ('abort', 'cancelled')) as aborted_turns,
    min(start_ns) as first_ns,
    max(start_ns) as last_ns,
    max_by(turn_id, (start_ns, turn_id)) as example_turn
  from reasons
  group by engine, replica, reason
)
select
  g.engine,
  g.replica,
  g.reason,
  g.turns,
  g.aborted_turns,
  c.of_turns,
  g.turns / c.of_turns::double as share_ratio,
  g.first_ns,
  g.last_ns,
  g.example_turn,
  coalesce(k.meaning, 'an event came that the recorder could not make sense of') as meaning,
  coalesce(k.next_step, 'Look at the engine''s log for lines that begin with turnlens:, and report it with the turn.') as next_step
from grouped as g
join counts as c on c.engine is not distinct from g.engine and c.replica is not distinct from g.replica
left join incomplete_reasons as k using (reason)
order by g.engine, g.replica, g.turns desc, g.reason;
