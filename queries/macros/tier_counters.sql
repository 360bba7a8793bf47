-- What engines' own counters say of prefixes that a tier had and that were not brought back, as the causes that they are here. No
-- event says which turn it was: it is what can be known of an engine that gives nothing but its metrics.
--
--   SGLang   sglang:storage_prefetch_unfulfilled_tokens and sglang:storage_prefetch_deferred_tokens, with their reasons
--   LMCache  lmcache:num_lookup_hits grew, and lmcache:num_hit_tokens did not: what was found was not needed, for vLLM had it on
--            the device. Confirmed where lmcache:num_vllm_hit_tokens grew meanwhile.
--
-- Example: from tier_counters('sglang', null, null, null) where 13,459 of 16,010 tokens found no room in host memory:
--
--   counter                                     reason         tokens  cause                     confirmed
--   sglang:storage_prefetch_unfulfilled_tokens  host_capacity  13459   restore_skipped.oversize  true
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it; null where the counter is about all
--   counter VARCHAR -- its name without _total
--   reason VARCHAR -- why, in the engine's own word; null where it has none
--   tokens BIGINT -- how far it grew in the range [tokens; LMCache's lookups: tokens or chunks, by its version]
--   cause VARCHAR -- class.detail
--   confirmed BOOLEAN -- false where the counters leave room for something else
--   first_ns BIGINT -- the sample from which it is counted [ns]
--   last_ns BIGINT -- its last sample [ns]
create or replace macro tier_counters(the_engine, the_run, since, until) as table
with grown as (
  select
    engine,
    replica,
    counter,
    reason,
    sum(increase)::bigint as tokens,
    min(from_ns) as first_ns,
    max(to_ns) as last_ns
  from _increases_in(the_engine, the_run, since, until)
  where not starts_with(counter, 'vllm:')
  group by engine, replica, counter, reason
),
lmcache as (
  select
    engine,
    replica,
    (sum(tokens) filter (counter = 'lmcache:num_lookup_hits'))::bigint as found,
    sum(tokens) filter (counter = 'lmcache:num_hit_tokens') as brought,
    coalesce(sum(tokens) filter (counter = 'lmcache:num_vllm_hit_tokens'), 0) as local_hits,
    min(first_ns) as first_ns,
    max(last_ns) as last_ns
  from grown
  where starts_with(counter, 'lmcache:')
  group by engine, replica
)
select
  g.engine,
  g.replica,
  g.counter,
  g.reason,
  g.tokens,
  -- What was on its way and did not come whole is no choice of the engine's.
  case
    when g.reason = 'storage_transfer' then 'restore_failed.partial'
    else 'restore_skipped.' || coalesce(l.detail, 'unspecified')
  end as cause,
  true as confirmed,
  g.first_ns,
  g.last_ns
from grown as g
left join _cause_labels as l on l.class = 'restore_skipped' and l.label = lower(g.reason)
where starts_with(g.counter, 'sglang:') and g.tokens > 0
union all
select
  engine,
  replica,
  'lmcache:num_lookup_hits',
  null,
  found,
  'restore_skipped.higher_tier_hit',
  local_hits > 0,
  first_ns,
  last_ns
from lmcache
where found > 0 and brought = 0
order by engine, replica, tokens desc, counter, reason;
