-- The rows of _counter_increases of a range. A counter does not say whose tokens it counts: of a run these are what grew while it had
-- turns, of the engines that served it.
--
-- Example: from _increases_in('vllm', null, null, null)
create or replace macro _increases_in(the_engine, the_run, since, until) as table
with times as (
  select min(start_ns) as first_ns, max(end_ns) as last_ns
  from _turn_verdicts
  where the_run is not null and run = the_run and (the_engine is null or engine = the_engine)
)
from _counter_increases
where (the_engine is null or engine = the_engine)
  and (since is null or from_ns >= since)
  and (until is null or to_ns <= until)
  and (
    the_run is null
    or (
      to_ns >= (select first_ns from times)
      and from_ns <= (select last_ns from times)
      and engine in (select t.engine from _turn_verdicts as t where t.run = the_run)
    )
  );
