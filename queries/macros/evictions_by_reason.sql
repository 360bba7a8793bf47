-- One row an engine start of a range and a reason for which it evicted from the device: how much went, how much of it while most
-- of the memory was free, and how old and how long unused it was. Row ``slots`` answers whether the limit was slots or memory.
-- Ages and idle times are over evictions, each counted once however many blocks it took.
--
-- Example: of 4 evictions for slots 3 were made while 90 % of the pool was free: from evictions_by_reason('ring0', null, null, null)
--
--   reason  evictions  tokens_evicted  memory_known  memory_free  memory_free_tokens  memory_free_ratio
--   slots   4          400             4             3            300                 0.75
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range
--   reason VARCHAR -- slots, memory, lease_expired, by_request, ...
--   evictions BIGINT -- how many
--   keys_evicted BIGINT -- snapshots or blocks
--   tokens_evicted BIGINT -- tokens that went [tokens]
--   without_tokens BIGINT -- evictions that say no tokens: compacted snapshots, whose tokens stay, and what the engine did not say
--   memory_known BIGINT -- evictions that say what was free
--   memory_free BIGINT -- those during which more than half of the pool was free
--   memory_taken BIGINT -- those during which it was not
--   memory_unknown BIGINT -- those that do not say
--   memory_free_tokens BIGINT -- tokens that went in these [tokens]
--   memory_free_ratio DOUBLE -- memory_free / memory_known
--   age_p10_seconds DOUBLE -- since the publish, a tenth were younger [s]
--   age_p50_seconds DOUBLE -- median [s]
--   age_p90_seconds DOUBLE -- a tenth were older [s]
--   idle_p10_seconds DOUBLE -- since the last use, a tenth were shorter [s]
--   idle_p50_seconds DOUBLE -- median [s]
--   idle_p90_seconds DOUBLE -- a tenth were longer [s]
--   resource_id VARCHAR -- the engine start
create or replace macro evictions_by_reason(the_engine, the_run, since, until) as table
select
  engine,
  replica,
  runs,
  reason,
  count(*) as evictions,
  sum(keys_evicted)::bigint as keys_evicted,
  coalesce(sum(tokens), 0)::bigint as tokens_evicted,
  count(*) filter (tokens is null) as without_tokens,
  count(memory_free) as memory_known,
  count(*) filter (memory_free) as memory_free,
  count(*) filter (not memory_free) as memory_taken,
  count(*) filter (memory_free is null) as memory_unknown,
  coalesce(sum(tokens) filter (memory_free), 0)::bigint as memory_free_tokens,
  count(*) filter (memory_free) / nullif(count(memory_free), 0)::double as memory_free_ratio,
  quantile_cont(age_seconds, 0.1) as age_p10_seconds,
  quantile_cont(age_seconds, 0.5) as age_p50_seconds,
  quantile_cont(age_seconds, 0.9) as age_p90_seconds,
  quantile_cont(idle_seconds, 0.1) as idle_p10_seconds,
  quantile_cont(idle_seconds, 0.5) as idle_p50_seconds,
  quantile_cont(idle_seconds, 0.9) as idle_p90_seconds,
  resource_id
from _evictions_in(the_engine, the_run, since, until)
group by engine, replica, runs, reason, resource_id
order by min(min(at_ns)) over (partition by resource_id), resource_id, evictions desc, reason;
