-- The keys that these turns missed, and between which times something may have happened to them that counts.
create or replace temporary table _needed as
with admitted as (
  select trace_id, parent_span_id as span_id, min(end_ns) as first_ns, max(end_ns) as admitted_ns
  from _own
  where name = 'scheduler.admit'
  group by all
),
segments as (
  select
    s.resource_id,
    s.trace_id,
    s.span_id,
    unnest(s.segments_source) as source,
    unnest(s.segments_key) as key,
    unnest(s.segments_provided_ns) as provided_ns
  from spans as s
  where s.start_ns >= getvariable('facts_low_dirty') - 60_000_000_000
    and s.name = 'turn'
    and s.rowid in (select place from _own where name = 'turn')
)
select distinct
  s.resource_id,
  s.key,
  coalesce(nullif(s.provided_ns, 0) - 3_600_000_000_000, 0) as low_ns,
  a.first_ns,
  a.admitted_ns
from segments as s
join admitted as a using (trace_id, span_id)
where s.source in ('recomputed', 'restored', 'computed') and s.key <> '';
