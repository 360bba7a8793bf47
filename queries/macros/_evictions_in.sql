-- The evictions from the device in a range's windows, with whose they were and whom they made room for.
--
-- Example: from _evictions_in('ring0', null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range
--   resource_id VARCHAR -- the engine start
--   at_ns BIGINT -- when [ns]
--   span_id VARCHAR -- span of the eviction
--   reason VARCHAR -- slots, memory, lease_expired, by_request, ...
--   keys_evicted BIGINT -- snapshots or blocks
--   tokens BIGINT -- tokens that went; null where they stayed (a compacted snapshot's child holds them) or were not said [tokens]
--   memory_free BOOLEAN -- more than half of the pool was free then; null where that was not recorded
--   age_seconds DOUBLE -- since the publish [s]
--   idle_seconds DOUBLE -- since the last use [s]
--   evictor_turn VARCHAR -- the turn that needed the room; null where none did
--   evictor_conversation VARCHAR -- its conversation
--   evictor_tenant VARCHAR -- on whose behalf
--   victim_turn VARCHAR -- the turn that had published what went
--   victim_conversation VARCHAR -- its conversation
--   victim_tenant VARCHAR -- on whose behalf
create or replace macro _evictions_in(the_engine, the_run, since, until) as table
with gone as materialized (
  select
    w.engine,
    w.replica,
    w.runs,
    s.resource_id,
    s.end_ns as at_ns,
    s.span_id,
    coalesce(s.reason, 'unspecified') as reason,
    coalesce(len(s.keys), 1) as keys_evicted,
    s.tokens,
    s.free_tokens > w.pool_tokens / 2 as memory_free,
    s.age_ns / 1e9 as age_seconds,
    s.idle_ns / 1e9 as idle_seconds,
    s.turn_id as evictor_turn,
    s.conversation_id,
    s.owner_turn_id as victim_turn
  from spans as s
  join _windows_in(the_engine, the_run, since, until) as w using (resource_id)
  where s.name = 'snapshot.evict'
    and s.tier = 'device'
    and s.end_ns >= w.from_ns
    and s.end_ns < w.until_ns
    -- Within the windows as well: said of the column alone, so that other times are not read.
    and (since is null or s.end_ns >= since)
    and (until is null or s.end_ns < until)
),
named as (
  select resource_id, turn_id, any_value(conversation_id) as conversation_id, any_value(tenant) as tenant
  from _turn_facts
  where turn_digest in (
    select md5_number_lower(evictor_turn) from gone union select md5_number_lower(victim_turn) from gone
  )
  group by all
)
select
  g.engine,
  g.replica,
  g.runs,
  g.resource_id,
  g.at_ns,
  g.span_id,
  g.reason,
  g.keys_evicted,
  g.tokens,
  g.memory_free,
  g.age_seconds,
  g.idle_seconds,
  g.evictor_turn,
  coalesce(evictor.conversation_id, g.conversation_id) as evictor_conversation,
  evictor.tenant as evictor_tenant,
  g.victim_turn,
  victim.conversation_id as victim_conversation,
  victim.tenant as victim_tenant
from gone as g
left join named as evictor on evictor.resource_id = g.resource_id and evictor.turn_id = g.evictor_turn
left join named as victim on victim.resource_id = g.resource_id and victim.turn_id = g.victim_turn;
