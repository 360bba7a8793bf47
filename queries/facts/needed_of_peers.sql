-- Keys that another replica may have held, and between which times it counts: first missing keys, and of the turns' own new ones
-- the first. Where a replica's snapshots each bring back a whole prefix, any of them may be there without the first.
create or replace temporary table _new_keys as
with asked as (
  select s.resource_id, s.trace_id, s.span_id, s.segments_source, s.segments_key, s.keys, s.keys_end_tokens, s.key_tokens, s.tokens_each,
    s.keys_omitted, s.seen_tokens
  from spans as s
  where (s.start_ns >= getvariable('facts_low_dirty') - 60_000_000_000 or s.start_ns is null)
    and s.name = 'turn'
    and s.rowid in (select place from _own where name = 'turn')
    and s.resource_id in (select resource_id from _peers)
),
missed as (
  select resource_id, trace_id, span_id, 0 as place, key
  from (select resource_id, trace_id, span_id, unnest(segments_source) as source, unnest(segments_key) as key from asked)
  where source = 'recomputed'
),
-- Counted as view _placements does.
new as (
  select resource_id, trace_id, span_id, row_number() over (partition by trace_id, span_id order by nth) as place, key
  from (
    select
      *,
      unnest(keys) as key,
      unnest(range(1, len(keys) + 1)) as nth,
      coalesce(keys_end_tokens[nth], key_tokens - (coalesce(keys_omitted, 0) + len(keys) - nth) * tokens_each) as end_tokens
    from asked
  )
  where end_tokens > seen_tokens
),
admitted as (
  select trace_id, parent_span_id as span_id, min(end_ns) - 3_600_000_000_000 as low_ns, max(end_ns) as high_ns
  from _own
  where name = 'scheduler.admit'
  group by all
)
select *
from (from missed union all from new)
join admitted using (trace_id, span_id)
where key <> '';
create or replace temporary table _looking as
select p.peer_id as resource_id, n.key, min(n.low_ns) as low_ns, max(n.high_ns) as high_ns
from _new_keys as n
join _peers as p on p.resource_id = n.resource_id
where n.place <= 1 or p.peer_id in (select resource_id from _whole_snapshots)
group by all;
