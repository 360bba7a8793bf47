-- One row an engine and a pair of verdicts that differ: the recorder's, given when the turn ended, and the SQL's, from the spans. They
-- are computed independently. A turn that the SQL calls incomplete or contradictory may have been found so after the recorder had
-- spoken (``later``); any other difference is a fault in one of the two.
--
-- Example: from verdict_disagreements(null, null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   recorded_verdict VARCHAR -- the recorder's
--   verdict VARCHAR -- the SQL's
--   turns BIGINT -- turns with this pair
--   later BOOLEAN -- whether what arrived later can explain it
--   first_ns BIGINT -- arrival of the first of them [ns]
--   example_turn VARCHAR -- that turn
create or replace macro verdict_disagreements(the_engine, the_run, since, until) as table
select
  engine,
  replica,
  recorded_verdict,
  verdict,
  count(*) as turns,
  verdict in ('incomplete', 'contradictory') as later,
  min(start_ns) as first_ns,
  min_by(turn_id, (start_ns, turn_id)) as example_turn
from _verdicts_in(the_engine, the_run, since, until)
where recorded_verdict <> verdict
group by engine, replica, recorded_verdict, verdict
order by engine, replica, turns desc, recorded_verdict, verdict;
