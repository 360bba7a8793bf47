-- How fast the engine starts of a range compute and restore, with the version of their software: view engine_rates, which is fitted
-- over all turns of a start, for those that served in the range.
--
-- Example: from engine_speeds('ring0', null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   engine_version VARCHAR -- version of the engine's software
--   runs VARCHAR -- labels of the experiments that it served in the range
--   first_ns BIGINT -- arrival of its first turn in the range [ns]
--   turns BIGINT -- its turns in the range
--   prefill_turns BIGINT -- turns that the rate of computing stands on
--   prefill_tokens_per_second DOUBLE -- null where it could not be fitted
--   prefill_error_tokens_per_second DOUBLE -- its standard error
--   restore_turns BIGINT -- turns that the rate of restoring stands on
--   restore_tokens_per_second DOUBLE -- null where it could not be fitted
--   restore_error_tokens_per_second DOUBLE -- its standard error
--   resource_id VARCHAR -- the engine start
create or replace macro engine_speeds(the_engine, the_run, since, until) as table
with served as (
  select
    resource_id,
    engine,
    replica,
    string_agg(distinct run, ', ' order by run) as runs,
    min(start_ns) as first_ns,
    count(*) as turns
  from _verdicts_in(the_engine, the_run, since, until)
  group by resource_id, engine, replica
)
select
  s.engine,
  s.replica,
  r.engine_version,
  s.runs,
  s.first_ns,
  s.turns,
  coalesce(e.prefill_turns, 0) as prefill_turns,
  e.prefill_tokens_per_second,
  e.prefill_tokens_per_second * e.prefill_error_ratio as prefill_error_tokens_per_second,
  coalesce(e.restore_turns, 0) as restore_turns,
  e.restore_tokens_per_second,
  e.restore_tokens_per_second * e.restore_error_ratio as restore_error_tokens_per_second,
  s.resource_id
from served as s
left join engine_rates as e using (resource_id)
left join resources as r using (resource_id)
order by s.first_ns, s.resource_id;
