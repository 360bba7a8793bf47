-- One row a complete turn that computed or restored what a cache could have had: seconds to the first token that it lost against the
-- hit turns of its own conversation or, where it has none, at the rates of its engine. Not the cache's doing, and left out: waiting in
-- the queue; what a restore took beyond its usual time (not_cache.slow_restore); and new text, as far as it is more than the hit
-- turns had, at the rate at which this turn computed. A hit turn is what others are compared with: of itself it lost what its own
-- recomputed and restored part takes at these rates, and never more than its own times of computing and restoring.
--
-- Example: a turn took 9.8 s and 0.2 s more in the queue, the 14 hit turns of its conversation take 0.9 s (median). It had 500 new
-- tokens more than these (median), of 10,000 that it computed in 9.5 s: 8.4 s lost.
--
-- columns
--   turn_id VARCHAR -- the turn
--   ttft_seconds DOUBLE -- its time to first token [s]
--   hit_turns BIGINT -- hit turns of the conversation that it is compared with
--   served_seconds DOUBLE -- its time to first token without the queue, and without what a slow restore took beyond its usual time [s]
--   hit_median_seconds DOUBLE -- the same of the hit turns, median [s]
--   avoidable_tokens BIGINT -- recomputed, and new ones that a cache could have had; null where S is unknown [tokens]
--   new_text_seconds DOUBLE -- what more new text than the hit turns had took, and is left out; null without hit turns [s]
--   lost_seconds DOUBLE -- the difference, less what more new text took, at least 0; null where there is nothing to compare with [s]
--   lost_basis VARCHAR -- hits (of the conversation) or rate (what was recomputed at the engine's prefill rate, and the restores; no more than it took)
--   lost_error_ratio DOUBLE -- standard error of that rate over the rate; null for hits, and where only restores count
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   start_ns BIGINT -- its arrival [ns]
--   conversation_digest UBIGINT -- md5 of conversation_id in short, by which it is found quickly
create or replace view turn_costs as
with hits as (
  select
    resource_id,
    conversation_id,
    conversation_digest,
    count(*) as hit_turns,
    median((ttft_ns - coalesce(queue_ns, 0)) / 1e9) as hit_median_seconds,
    median(new_tokens) as hit_median_new_tokens
  from _turn_verdicts
  where verdict = 'hit' and ttft_ns is not null and conversation_id is not null
  group by all
),
served as (
  select
    *,
    coalesce(case when main_cause = 'not_cache.slow_restore' then not_cache_seconds end, 0) as restoring_seconds,
    (ttft_ns - coalesce(queue_ns, 0)) / 1e9 - restoring_seconds as served_seconds,
    recomputed_tokens + coalesce(avoidable_new_tokens, 0) as avoidable_tokens,
    coalesce(compute_ns / 1e9 / nullif(computed_tokens, 0), 0) as seconds_each
  from _turn_verdicts
),
compared as (
  select
    t.*,
    coalesce(h.hit_turns, 0) as hit_turns,
    h.hit_median_seconds,
    case
      when h.hit_median_seconds is not null
        then greatest(t.computed_tokens - t.avoidable_tokens - coalesce(h.hit_median_new_tokens, 0), 0) * t.seconds_each
    end as new_text_seconds,
    -- greatest() passes over nulls, and an unknown loss must not become 0.
    case
      when t.verdict <> 'hit' and t.ttft_ns is not null and t.avoidable_tokens is not null and h.hit_median_seconds is not null
        then greatest(t.served_seconds - h.hit_median_seconds - new_text_seconds, 0)
    end as against_hits,
    case
      -- least() does, too.
      when t.ttft_ns is not null and (t.avoidable_tokens = 0 or t.avoidable_tokens * e.prefill_seconds_per_token is not null)
        then least(t.avoidable_tokens * coalesce(e.prefill_seconds_per_token, 0), coalesce(t.compute_ns / 1e9, 0))
          + case when t.restored_tokens > 0 then coalesce(t.restore_ns, 0) / 1e9 - t.restoring_seconds else 0 end
    end as at_rate,
    e.prefill_error_ratio
  from served as t
  left join hits as h using (resource_id, conversation_id, conversation_digest)
  left join engine_rates as e using (resource_id)
  where t.verdict not in ('incomplete', 'contradictory')
    -- Where it is not known what had been seen, it is not known either what this turn need not have computed.
    and coalesce(t.avoidable_tokens + t.restored_tokens > 0, true)
)
select
  turn_id,
  ttft_ns / 1e9 as ttft_seconds,
  hit_turns,
  served_seconds,
  hit_median_seconds,
  avoidable_tokens,
  new_text_seconds,
  coalesce(against_hits, at_rate) as lost_seconds,
  case when against_hits is not null then 'hits' when at_rate is not null then 'rate' end as lost_basis,
  case when against_hits is null and at_rate is not null and avoidable_tokens > 0 then prefill_error_ratio end as lost_error_ratio,
  trace_id,
  span_id,
  start_ns,
  conversation_digest
from compared;
