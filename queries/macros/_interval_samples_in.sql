-- What was said to be free in each interval of a range (macro _intervals_in), one row an interval with a sample.
--
-- Example: from _interval_samples_in('ring0', null, null, null, 60)
--
-- columns
--   resource_id VARCHAR -- the engine start
--   number BIGINT -- which interval, from 0
--   basis VARCHAR -- gauge or span: who said it last, a gauge where there is one; null where nobody said anything
--   last_slots TUPLE(BOOLEAN, BIGINT, BIGINT, BIGINT) -- the last sample of slots: a gauge's?, when [ns], order among events of one time, slots taken
--   last_tokens TUPLE(BOOLEAN, BIGINT, BIGINT, BIGINT) -- the last sample of tokens: the same, tokens taken
--   samples BIGINT -- samples that say both, slots and tokens
--   slot_full_samples BIGINT -- those with no slot free and more than half of the pool
--   most_slots BIGINT -- slots taken, of all samples
--   least_free_tokens BIGINT -- of all samples [tokens]
--   evictions BIGINT -- evictions from the device
--   memory_evictions BIGINT -- those for memory
--   slot_evictions BIGINT -- those for slots
create or replace macro _interval_samples_in(the_engine, the_run, since, until, interval_seconds) as table
with samples as (
  select s.*, w.total_slots, w.pool_tokens, floor((s.at_ns - w.from_ns) / w.step_ns)::bigint as number
  from _free_samples_in(the_engine, the_run, since, until) as s
  join _intervals_in(the_engine, the_run, since, until, interval_seconds) as w on w.resource_id = s.resource_id and w.number = -1
)
select
  resource_id,
  number,
  max_by(basis, (basis = 'gauge', at_ns, sequence)) filter (free_slots is not null or free_tokens is not null) as basis,
  max((basis = 'gauge', at_ns, sequence, total_slots - free_slots)) filter (total_slots - free_slots is not null) as last_slots,
  max((basis = 'gauge', at_ns, sequence, pool_tokens - free_tokens)) filter (pool_tokens - free_tokens is not null) as last_tokens,
  count(*) filter (free_slots is not null and free_tokens is not null and pool_tokens > 0) as samples,
  count(*) filter (free_slots = 0 and free_tokens > pool_tokens / 2) as slot_full_samples,
  max(total_slots - free_slots) as most_slots,
  min(free_tokens) as least_free_tokens,
  count(evicted_for) as evictions,
  count(*) filter (evicted_for = 'memory') as memory_evictions,
  count(*) filter (evicted_for = 'slots') as slot_evictions
from samples
group by all;
