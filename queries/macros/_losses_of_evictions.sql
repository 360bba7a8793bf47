-- What the evictions of a range cost: one row an eviction and a complete turn that came back, now or later, for what had gone, and
-- for which this is the primary cause. Seconds are those of lost_by_cause: a turn's lost seconds are shared out over all tokens
-- that it recomputed or restored, for whatever cause, and a part that no eviction of the range caused is in no row; what a turn
-- lost that counts as a hit goes at its engine's rates.
--
-- Example: a turn lost 8 s and recomputed 400 tokens, 300 of which one eviction had taken: recomputed_tokens 300, lost_seconds 6:
-- from _losses_of_evictions('ring0', null, null, null)
--
-- columns
--   resource_id VARCHAR -- the engine start
--   span_id VARCHAR -- span of the eviction
--   trace_id VARCHAR -- trace of the turn that lost
--   turn_span_id VARCHAR -- span of the turn that lost
--   recomputed_tokens BIGINT -- computed again because of it [tokens]
--   restored_tokens BIGINT -- restored from another tier because of it [tokens]
--   lost_seconds DOUBLE -- its part of what the turn lost; null where nothing of it is known [s]
--   priced BOOLEAN -- all of it is known
create or replace macro _losses_of_evictions(the_engine, the_run, since, until) as table
with missed as (
  select
    c.resource_id,
    c.evict_span_id as span_id,
    c.trace_id,
    c.turn_span_id,
    c.source,
    c.end_token - c.start_token as tokens,
    case
      when k.lost_seconds is not null
        then k.lost_seconds * (c.end_token - c.start_token) / (t.recomputed_tokens + t.restored_tokens)
      when c.source = 'restored' then (c.end_token - c.start_token) * r.restore_seconds_per_token
      else (c.end_token - c.start_token) * r.prefill_seconds_per_token
    end as seconds
  from causes as c
  join _turn_spans as t on t.trace_id = c.trace_id and t.span_id = c.turn_span_id
  left join turn_costs as k on k.trace_id = c.trace_id and k.span_id = c.turn_span_id
  left join engine_rates as r on r.resource_id = c.resource_id
  where c.cause like 'evicted.%'
    and c.source in ('recomputed', 'restored')
    and c.evict_span_id in (select span_id from _evictions_in(the_engine, the_run, since, until))
    and t.complete
)
select
  resource_id,
  span_id,
  trace_id,
  turn_span_id,
  coalesce(sum(tokens) filter (source = 'recomputed'), 0)::bigint as recomputed_tokens,
  coalesce(sum(tokens) filter (source = 'restored'), 0)::bigint as restored_tokens,
  sum(seconds) as lost_seconds,
  bool_and(seconds is not null) as priced
from missed
group by resource_id, span_id, trace_id, turn_span_id;
