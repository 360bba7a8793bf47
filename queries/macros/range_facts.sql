-- What there is, to tell why a range is empty: which engines and runs the store has, from when to when, and how many turns lie in
-- the range.
--
-- Example: from range_facts('ring0', null, null, null)
--
-- columns
--   engines VARCHAR[] -- engines that served a turn
--   runs VARCHAR[] -- labels of experiments
--   first_ns BIGINT -- arrival of the first turn of the store [ns]
--   last_ns BIGINT -- arrival of the last [ns]
--   turns BIGINT -- turns in the range
create or replace macro range_facts(the_engine, the_run, since, until) as table
with every as (
  select r.engine, t.run, t.start_ns
  from _turn_facts as t
  left join resources as r using (resource_id)
)
select
  coalesce(list_sort(list(distinct engine) filter (engine is not null)), []) as engines,
  coalesce(list_sort(list(distinct run) filter (run is not null)), []) as runs,
  min(start_ns) as first_ns,
  max(start_ns) as last_ns,
  count(*) filter (
    (the_engine is null or engine = the_engine)
    and (the_run is null or run = the_run)
    and (since is null or start_ns >= since)
    and (until is null or start_ns < until)
  ) as turns
from every;
