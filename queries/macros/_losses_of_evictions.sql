-- What the evictions of a range cost: one row an eviction and a complete turn that came back, now or later, for what had gone, and
-- for which this is the primary cause. Seconds are those of _lost_spans; a part that no eviction of the range caused is in no row.
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
  select resource_id, evict_span_id as span_id, trace_id, turn_span_id, source, tokens, seconds
  from _lost_spans
  where cause like 'evicted.%'
    and source in ('recomputed', 'restored')
    and evict_span_id in (select span_id from _evictions_in(the_engine, the_run, since, until))
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
