-- One row an eviction: a snapshot, or a run of blocks of one chain, that was removed from a tier.
--
-- Example: turn c03-t03 had left 14,815 tokens on the device; turn s02-t02 needed a slot when none was free, and two thirds of the
-- memory were:
--
--   reason  tokens  owner_turn  for_turn  idle_seconds  free_slots  total_slots  free_tokens  total_tokens
--   slots   14815   c03-t03     s02-t02   8.9           0           48           670000       1000000
--
-- columns
--   at TIMESTAMP_NS -- when, UTC
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   tier VARCHAR -- from which tier
--   reason VARCHAR -- slots, memory, tier_capacity, lease_expired, reset, by_request, ...
--   tokens BIGINT -- tokens lost; null where the engine did not say [tokens]
--   keys_evicted BIGINT -- snapshots or blocks removed
--   key VARCHAR -- the first of them
--   owner_turn VARCHAR -- the turn that had published them
--   for_turn VARCHAR -- the turn that needed the room
--   idle_seconds DOUBLE -- since the last use [s]
--   age_seconds DOUBLE -- since the publish [s]
--   free_slots BIGINT -- free snapshot slots then
--   total_slots BIGINT -- snapshot slots of the engine
--   free_tokens BIGINT -- free KV tokens then [tokens]
--   total_tokens BIGINT -- KV tokens of the engine [tokens]
--   policy VARCHAR -- the policy that chose the victim
--   trace_id VARCHAR -- trace of the turn that needed the room
--   span_id VARCHAR -- span of the eviction
--   resource_id VARCHAR -- the engine start
--   at_ns BIGINT -- when [ns]
create or replace view evictions as
select
  make_timestamp_ns(s.start_ns) as at,
  r.engine,
  r.replica,
  s.tier,
  s.reason,
  s.tokens,
  len(s.keys) as keys_evicted,
  s.key,
  s.owner_turn_id as owner_turn,
  s.turn_id as for_turn,
  s.idle_ns / 1e9 as idle_seconds,
  s.age_ns / 1e9 as age_seconds,
  s.free_slots,
  s.total_slots,
  s.free_tokens,
  s.total_tokens,
  s.policy,
  s.trace_id,
  s.span_id,
  s.resource_id,
  s.start_ns as at_ns
from spans as s
left join resources as r using (resource_id)
where s.name = 'snapshot.evict';
