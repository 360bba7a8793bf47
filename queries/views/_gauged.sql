-- One row a sender of gauges of what is free on a device, with what follows from them: how many slots it has (taken and free ones
-- together, where it says both) and how many tokens fit at least (the most that ever was free). So slots and memory can be told of
-- an engine that sends nothing else.
--
-- Example: Flare's flare_free_snapshots 0, flare_cached_checkpoints 32, flare_free_kv_tokens 22,226,688:
--
--   total_slots  pool_tokens
--   32           22226688
--
-- columns
--   resource_id VARCHAR -- the sender
--   first_ns BIGINT -- its first gauge [ns]
--   last_ns BIGINT -- its last [ns]
--   total_slots BIGINT -- snapshot slots; null where it does not say
--   pool_tokens BIGINT -- KV tokens that were free at most [tokens]
create or replace view _gauged as
select
  resource_id,
  min(time_ns) as first_ns,
  max(time_ns) as last_ns,
  (max(value) filter (name = 'turnlens.slots.total'))::bigint as total_slots,
  (max(value) filter (name = 'turnlens.tokens.free'))::bigint as pool_tokens
from metric_points
where name in ('turnlens.slots.free', 'turnlens.tokens.free', 'turnlens.slots.total') and value is not null
group by resource_id
having count(*) filter (name <> 'turnlens.slots.total') > 0;
