-- The eight engine starts, and what each says every ten seconds.
insert into resources by name
select
  resource_of(engine) as resource_id,
  getvariable('started_ns') as first_received_ns,
  case when has_snapshots(engine) then 'snapshots' else 'blocks' end as service_name,
  md5(concat('instance', engine)) as instance_id,
  case when has_snapshots(engine) then 'snapshots' else 'blocks' end as engine,
  (engine % 4)::varchar as replica,
  case when has_snapshots(engine) then 512 end as engine_slots,
  2_000_000 as pool_tokens,
  case when has_snapshots(engine) then 1 else 16 end as unit_tokens,
  case when has_snapshots(engine) then 'lru_leaf' else 'lru' end as engine_policy,
  getvariable('started_ns') as recorder_started_ns,
  '1' as conventions_schema
from range(8) as engines(engine);

insert into metric_points by name
select
  resource_of(engine) as resource_id,
  metric.name,
  'gauge' as kind,
  metric.unit,
  at_ns as time_ns,
  floor(metric.most * draw(metric.name, at_ns + engine))::double as value,
  '{}' as attributes,
  at_ns + 620_000_000 as received_ns
from range(getvariable('started_ns'), getvariable('ended_ns'), 10_000_000_000) as times(at_ns)
cross join range(8) as engines(engine)
cross join (
  values
    ('turnlens.slots.free', '{slot}', 4),
    ('turnlens.tokens.free', '{token}', 1_400_000),
    ('turnlens.requests.running', '{request}', 12),
    ('turnlens.requests.waiting', '{request}', 3),
    ('turnlens.records.dropped', '{record}', 1)
) as metric(name, unit, most)
where has_snapshots(engine) or metric.name <> 'turnlens.slots.free'
order by at_ns, engine, metric.name;
