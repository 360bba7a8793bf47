-- The spans of a window as they arrive: in the order in which they end.
create or replace temp table arriving_window as
select
  * exclude (arrival),
  case when name in ('scheduler.admit', 'snapshot.publish', 'snapshot.evict') then arrival end as sequence,
  'internal' as kind,
  case when outcome in ('failed', 'timed_out') then 'error' else 'unset' end as status_code,
  256 as flags,
  'turnlens.tracing' as scope_name,
  '0.1.0' as scope_version,
  -- What ends within half a second is sent together.
  end_ns // 500_000_000 * 500_000_000 + 620_000_000 as received_ns
from (
  select *, getvariable('stored') + row_number() over () - 1 as arrival
  from (
    from turn_spans(getvariable('from_ns'), getvariable('until_ns'))
    union all by name
    from work_spans(getvariable('from_ns'), getvariable('until_ns'))
    union all by name
    from publish_spans(getvariable('from_ns'), getvariable('until_ns'))
    union all by name
    from evict_spans(getvariable('from_ns'), getvariable('until_ns'))
    order by end_ns, name desc, span_id
  )
);
