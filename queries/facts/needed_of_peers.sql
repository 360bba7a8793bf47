-- Keys that another replica may have held, and between which times it counts: first missing keys, and the turns' own new ones.
create or replace temporary table _looking as
with asked as (
  select s.resource_id, s.trace_id, s.span_id, s.segments_source, s.segments_key, s.keys
  from spans as s
  where (s.start_ns >= getvariable('facts_low_dirty') - 60_000_000_000 or s.start_ns is null)
    and s.name = 'turn'
    and s.rowid in (select place from _own where name = 'turn')
    and s.resource_id in (select resource_id from _peers)
),
missed as (
  select resource_id, trace_id, span_id, unnest(keys) as key from asked
  union all
  select resource_id, trace_id, span_id, key
  from (select resource_id, trace_id, span_id, unnest(segments_source) as source, unnest(segments_key) as key from asked)
  where source = 'recomputed'
),
admitted as (
  select trace_id, parent_span_id as span_id, min(end_ns) as first_ns, max(end_ns) as last_ns
  from _own
  where name = 'scheduler.admit'
  group by all
)
select p.peer_id as resource_id, m.key, min(a.first_ns) - 3_600_000_000_000 as low_ns, max(a.last_ns) as high_ns
from missed as m
join admitted as a using (trace_id, span_id)
join _peers as p on p.resource_id = m.resource_id
where m.key <> ''
group by all;
