-- The engine starts that ran in a range, as turns, other spans, gauges or start-up lines say, with how much each has: what is
-- known of them at once, before anything is reckoned.
--
-- Example: from engine_starts('ring0', null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range
--   turns BIGINT -- turns that arrived in the range
--   total_slots BIGINT -- snapshot slots; null for an engine of blocks
--   pool_tokens BIGINT -- KV tokens that fit
--   limited_by VARCHAR -- what kept it from having more, where its log says so: memory or concurrency
--   told_by VARCHAR -- who says how much it has: engine, log, or gauges
--   from_ns BIGINT -- from when on it is looked at [ns]
--   until_ns BIGINT -- until when [ns]
--   resource_id VARCHAR -- the engine start
create or replace macro engine_starts(the_engine, the_run, since, until) as table
select engine, replica, runs, turns, total_slots, pool_tokens, limited_by, told_by, from_ns, until_ns, resource_id
from _windows_in(the_engine, the_run, since, until)
order by from_ns, resource_id;
