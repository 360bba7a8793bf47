-- One row an engine start that says in its log how much its cache was given: Flare's start-up lines. Ranks share the slots; of ranks
-- that differ the least counts, for every rank holds each prefix.
--
-- columns
--   resource_id VARCHAR -- the sender: one an engine start that was read
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   time_ns BIGINT -- when it started [ns]
--   ranks BIGINT -- how many ranks say so
--   total_slots BIGINT -- snapshot slots
--   pool_tokens BIGINT -- KV tokens that fit
--   limited_by VARCHAR -- what kept it from having more, in its own word: memory or concurrency; with commas where ranks differ
create or replace view _told_capacities as
select
  p.resource_id,
  any_value(r.engine) as engine,
  any_value(r.replica) as replica,
  min(p.time_ns) as time_ns,
  count(distinct json_extract_string(p.attributes, '$.rank')) as ranks,
  (min(p.value) filter (p.name = 'turnlens.slots.capacity'))::bigint as total_slots,
  (min(p.value) filter (p.name = 'turnlens.tokens.capacity'))::bigint as pool_tokens,
  string_agg(distinct json_extract_string(p.attributes, '$.limited_by'), ', ') as limited_by
from metric_points as p
join resources as r using (resource_id)
where p.name in ('turnlens.slots.capacity', 'turnlens.tokens.capacity') and p.value is not null
group by p.resource_id;
