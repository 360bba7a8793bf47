-- One row a key and an event of its life: a publish that ended (committed, skipped, failed, cancelled) or an eviction.
-- Residency is known per engine start, tier and key. Of events at one time the last one holds; a publish that came to nothing
-- while the key was there already changes nothing, and is left out.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   tier VARCHAR -- device, host, disk, remote, peer or unspecified
--   key VARCHAR -- the prefix key
--   event VARCHAR -- committed, skipped, failed, cancelled or evicted
--   reason VARCHAR -- why, as the engine said
--   begun_ns BIGINT -- when the publish began; of an eviction its time [ns]
--   at_ns BIGINT -- when it took effect [ns]
--   turn_id VARCHAR -- the turn that published, or that needed the room
--   trace_id VARCHAR -- the span that says so
--   span_id VARCHAR -- the span that says so
--   eviction STRUCT(at_ns BIGINT, by_turn VARCHAR, reason VARCHAR, tokens BIGINT, keys BIGINT, idle_seconds DOUBLE, free_slots BIGINT, total_slots BIGINT, free_tokens BIGINT, total_tokens BIGINT, "policy" VARCHAR, span_id VARCHAR) -- what the span says of an eviction; null of a publish
create or replace view _key_events as
with events as (
  select
    resource_id,
    coalesce(tier, 'unspecified') as tier,
    unnest(keys) as key,
    case name when 'snapshot.evict' then 'evicted' else coalesce(outcome, 'committed') end as event,
    reason,
    start_ns as begun_ns,
    end_ns as at_ns,
    turn_id,
    trace_id,
    span_id,
    case
      when name = 'snapshot.evict' then {
        'at_ns': start_ns,
        'by_turn': turn_id,
        'reason': reason,
        'tokens': tokens,
        'keys': len(keys),
        'idle_seconds': idle_ns / 1e9,
        'free_slots': free_slots,
        'total_slots': total_slots,
        'free_tokens': free_tokens,
        'total_tokens': total_tokens,
        'policy': policy,
        'span_id': span_id
      }
    end as eviction,
    coalesce(sequence, 0) as sequence
  from spans
  where name in ('snapshot.publish', 'snapshot.evict') and end_ns is not null
),
lived as (
  select
    *,
    last_value(case when event in ('committed', 'evicted') then event end ignore nulls) over (
      partition by resource_id, tier, key
      order by at_ns, sequence, span_id
      rows between unbounded preceding and 1 preceding
    ) as state
  from events
  where key is not null
)
select resource_id, tier, key, event, reason, begun_ns, at_ns, turn_id, trace_id, span_id, eviction
from lived
where event in ('committed', 'evicted') or state is distinct from 'committed'
qualify row_number() over (partition by resource_id, tier, key, at_ns order by sequence desc, span_id desc) = 1;
