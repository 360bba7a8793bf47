-- What was free on the device, as engines said it: gauges (basis ``gauge``), and what admissions and evictions carry (basis
-- ``span``: the last sample, at most five seconds old). One row a moment and basis, for the windows of a range.
--
-- Example: from _free_samples_in('ring0', null, null, null)
--
-- columns
--   resource_id VARCHAR -- the engine start
--   at_ns BIGINT -- when [ns]
--   sequence BIGINT -- order among events of one time; -1 for gauges, which are taken before what they explain
--   basis VARCHAR -- gauge or span
--   free_slots BIGINT -- free snapshot slots; null where not said
--   free_tokens BIGINT -- free KV tokens; null where not said
--   evicted_for VARCHAR -- reason, where the span is an eviction from the device
create or replace macro _free_samples_in(the_engine, the_run, since, until) as table
with windows as (
  from _windows_in(the_engine, the_run, since, until)
)
select
  m.resource_id,
  m.time_ns as at_ns,
  -1 as sequence,
  'gauge' as basis,
  (max(m.value) filter (m.name = 'turnlens.slots.free'))::bigint as free_slots,
  (max(m.value) filter (m.name = 'turnlens.tokens.free'))::bigint as free_tokens,
  null as evicted_for
from metric_points as m
join windows as w using (resource_id)
where m.name in ('turnlens.slots.free', 'turnlens.tokens.free') and m.time_ns >= w.from_ns and m.time_ns < w.until_ns
group by m.resource_id, m.time_ns
union all
select
  s.resource_id,
  s.end_ns,
  coalesce(s.sequence, 0),
  'span',
  s.free_slots,
  s.free_tokens,
  case when s.name = 'snapshot.evict' then coalesce(s.reason, 'unspecified') end
from spans as s
join windows as w using (resource_id)
where (s.name = 'scheduler.admit' or (s.name = 'snapshot.evict' and s.tier = 'device'))
  and s.end_ns >= w.from_ns
  and s.end_ns < w.until_ns
  -- Within the windows as well: said of the column alone, so that other times are not read.
  and (since is null or s.end_ns >= since)
  and (until is null or s.end_ns < until)
  and (s.free_slots is not null or s.free_tokens is not null or s.name = 'snapshot.evict');
