-- Evictions from the device within a window, and what becomes of it on the host: a publish at the same moment, an eviction later.
create or replace temp macro evict_spans(from_ns, until_ns) as table
with evicted as (
  select
    *,
    case
      when has_snapshots(engine) then [snapshot_key(owner, part)]
      else block_keys(app, owner, epoch, first_block, end_block)
    end as all_keys,
    case when has_snapshots(engine) then tokens else 16 end as each
  from plan.evicted
  where at_ns >= from_ns - 10_800_000_000_000 and at_ns < until_ns
    and (at_ns >= from_ns or (host_end_ns >= from_ns and host_end_ns < until_ns))
)
select
  'snapshot.evict' as name,
  trace_of_turn(evictor) as trace_id,
  span_of('evict', 2 * owner + part) as span_id,
  span_of('turn', evictor) as parent_span_id,
  at_ns as start_ns,
  at_ns as end_ns,
  resource_of(engine) as resource_id,
  name_of_turn(evictor) as turn_id,
  request_of_turn(evictor) as request_id,
  conversation_of_turn(evictor) as conversation_id,
  all_keys[1] as key,
  all_keys as keys,
  each as tokens_each,
  tokens,
  case when has_snapshots(engine) then 0 end as free_slots,
  case when has_snapshots(engine) then 512 end as total_slots,
  case
    when has_snapshots(engine) then (2e6 * (0.3 + 0.4 * draw('free tokens', evictor)))::bigint
    else (2e6 * 0.04 * draw('free tokens', evictor))::bigint
  end as free_tokens,
  2_000_000 as total_tokens,
  floor(12 * draw('running', evictor))::bigint as running,
  floor(3 * draw('waiting', evictor))::bigint as waiting,
  'device' as tier,
  case when has_snapshots(engine) and (how = 'compacted' or draw('full', evictor) < 0.9) then 'slots' else 'memory' end as reason,
  case when has_snapshots(engine) then 'lru_leaf' else 'lru' end as policy,
  name_of_turn(owner) as owner_turn_id,
  at_ns - published_ns as age_ns,
  at_ns - used_ns as idle_ns,
  [
    {
      'trace_id': trace_of_turn(owner),
      'span_id': span_of('publish', 2 * owner + case when has_snapshots(engine) then part else 0 end),
      'attributes': null::varchar
    }
  ] as links
from evicted
where at_ns >= from_ns
union all by name
select
  'snapshot.publish' as name,
  md5(concat('host publish', 2 * owner + part)) as trace_id,
  span_of('host publish', 2 * owner + part) as span_id,
  at_ns as start_ns,
  at_ns as end_ns,
  resource_of(engine) as resource_id,
  all_keys[-1] as key,
  all_keys as keys,
  each as tokens_each,
  tokens,
  'host' as tier,
  'committed' as outcome
from evicted
where at_ns >= from_ns and host_end_ns is not null
union all by name
select
  'snapshot.evict' as name,
  md5(concat('host evict', 2 * owner + part)) as trace_id,
  span_of('host evict', 2 * owner + part) as span_id,
  host_end_ns as start_ns,
  host_end_ns as end_ns,
  resource_of(engine) as resource_id,
  all_keys[1] as key,
  all_keys as keys,
  each as tokens_each,
  tokens,
  'host' as tier,
  'tier_capacity' as reason,
  'lru' as policy,
  name_of_turn(owner) as owner_turn_id,
  host_end_ns - published_ns as age_ns,
  host_end_ns - at_ns as idle_ns
from evicted
where host_end_ns >= from_ns and host_end_ns < until_ns;
