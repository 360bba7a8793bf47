-- One row a complete turn that was not a hit: seconds to the first token that it lost against the hit turns of its own
-- conversation or, where it has none, at the rates of its engine. Waiting in the queue is left out, and what a
-- restore took beyond its usual time (not_cache.slow_restore): it is not the cache's doing.
--
-- Example: a turn took 9.8 s and 0.2 s more in the queue, the 14 hit turns of its conversation take 0.9 s (median): 8.9 s lost.
--
-- columns
--   turn_id VARCHAR -- the turn
--   ttft_seconds DOUBLE -- its time to first token [s]
--   hit_turns BIGINT -- hit turns of the conversation that it is compared with
--   served_seconds DOUBLE -- its time to first token without the queue, and without what a slow restore took beyond its usual time [s]
--   hit_median_seconds DOUBLE -- the same of the hit turns, median [s]
--   lost_seconds DOUBLE -- the difference, at least 0; null where there is nothing to compare with [s]
--   lost_basis VARCHAR -- hits (of the conversation) or rate (what was recomputed at the engine's prefill rate, and the restores)
--   lost_error_ratio DOUBLE -- standard error of that rate over the rate; null for hits
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   start_ns BIGINT -- its arrival [ns]
--   conversation_digest UBIGINT -- md5 of conversation_id in short, by which it is found quickly
create or replace view turn_costs as
with hits as (
  select resource_id, conversation_id, conversation_digest, count(*) as hit_turns, median((ttft_ns - coalesce(queue_ns, 0)) / 1e9) as hit_median_seconds
  from _turn_verdicts
  where verdict = 'hit' and ttft_ns is not null and conversation_id is not null
  group by all
),
served as (
  select
    *,
    coalesce(case when main_cause = 'not_cache.slow_restore' then not_cache_seconds end, 0) as restoring_seconds,
    (ttft_ns - coalesce(queue_ns, 0)) / 1e9 - restoring_seconds as served_seconds
  from _turn_verdicts
),
compared as (
  select
    t.*,
    coalesce(h.hit_turns, 0) as hit_turns,
    h.hit_median_seconds,
    -- greatest() passes over nulls, and an unknown loss must not become 0.
    case
      when t.ttft_ns is not null and h.hit_median_seconds is not null
        then greatest(t.served_seconds - h.hit_median_seconds, 0)
    end as against_hits,
    case
      when t.ttft_ns is not null and (t.recomputed_tokens = 0 or e.prefill_seconds_per_token is not null)
        then t.recomputed_tokens * coalesce(e.prefill_seconds_per_token, 0) + coalesce(t.restore_ns, 0) / 1e9 - t.restoring_seconds
    end as at_rate,
    e.prefill_error_ratio
  from served as t
  left join hits as h using (resource_id, conversation_id, conversation_digest)
  left join engine_rates as e using (resource_id)
  where t.verdict not in ('hit', 'incomplete', 'contradictory')
)
select
  turn_id,
  ttft_ns / 1e9 as ttft_seconds,
  hit_turns,
  served_seconds,
  hit_median_seconds,
  coalesce(against_hits, at_rate) as lost_seconds,
  case when against_hits is not null then 'hits' when at_rate is not null then 'rate' end as lost_basis,
  case when against_hits is null and at_rate is not null then prefill_error_ratio end as lost_error_ratio,
  trace_id,
  span_id,
  start_ns,
  conversation_digest
from compared;
