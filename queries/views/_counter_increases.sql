-- One row a sample of one of an engine's counters (vLLM's, SGLang's, LMCache's) that say something of its cache: by how much it grew
-- since the sample before. A cumulative value that falls began anew, and one that says so: what it has was counted since. The first
-- sample of a counter is where the counting starts, unless it says since when it counts. The sender's resource names the engine
-- (turnlens.engine, and turnlens.replica where there are several); one that names none is about the store's only engine.
--
-- Example: samples 100, 150, 20 (after a restart) give 50 and 20, the latter with ``is_reset``.
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it; null where the counter is about all
--   counter VARCHAR -- its name without _total, and its source in braces where it has one
--   reason VARCHAR -- its label of that name: why, in the engine's own word
--   from_ns BIGINT -- the sample before [ns]
--   to_ns BIGINT -- this sample [ns]
--   increase DOUBLE -- counted between the two [tokens or requests]
--   is_reset BOOLEAN -- whether the counter began anew; what was counted between the last sample and the restart is not known
create or replace view _counter_increases as
with points as (
  select
    r.engine,
    r.replica,
    p.resource_id,
    regexp_replace(p.name, '_total$', '')
      || coalesce('{' || json_extract_string(p.attributes, '$.source') || '}', '') as counter,
    json_extract_string(p.attributes, '$.reason') as reason,
    p.attributes,
    p.time_ns,
    p.start_ns,
    p.value,
    coalesce(p.temporality = 'delta', false) as is_delta,
    lag(p.time_ns) over series as before_ns,
    lag(p.value) over series as before,
    coalesce(p.value < lag(p.value) over series or p.start_ns > lag(p.time_ns) over series, false) as is_fresh
  from metric_points as p
  left join resources as r using (resource_id)
  where p.value is not null
    and regexp_replace(p.name, '_total$', '') in (
      'vllm:prefix_cache_queries',
      'vllm:prefix_cache_hits',
      'vllm:external_prefix_cache_queries',
      'vllm:external_prefix_cache_hits',
      'vllm:prompt_tokens',
      'vllm:prompt_tokens_by_source',
      'vllm:prompt_tokens_cached',
      'vllm:request_success',
      'sglang:storage_prefetch_unfulfilled_tokens',
      'sglang:storage_prefetch_deferred_tokens',
      'lmcache:num_lookup_hits',
      'lmcache:num_hit_tokens',
      'lmcache:num_vllm_hit_tokens'
    )
    and coalesce(json_extract_string(p.attributes, '$.finished_reason') not in ('abort', 'error'), true)
  window series as (partition by p.resource_id, p.name, p.attributes order by p.time_ns)
),
-- A sender that names no engine.
engines as (
  select distinct engine
  from resources
  where engine is not null
),
single as (
  select any_value(engine) as engine
  from engines
  having count(*) = 1
)
select
  coalesce(points.engine, single.engine) as engine,
  points.replica,
  points.counter,
  points.reason,
  coalesce(points.before_ns, points.start_ns) as from_ns,
  points.time_ns as to_ns,
  case
    when points.is_delta or points.before is null or points.is_fresh then points.value
    else points.value - points.before
  end as increase,
  points.is_fresh and not points.is_delta as is_reset
from points
left join single on true
where (points.before_ns is not null or points.start_ns < points.time_ns)
  and coalesce(points.engine, single.engine) is not null;
