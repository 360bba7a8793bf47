-- One row a span of a complete turn's prompt that cost something: what was recomputed or restored, the new text of a prompt that does
-- not continue its conversation, and what was new here and held elsewhere; with the seconds to first token that it lost. A turn's lost
-- seconds (turn_costs) are shared out among what it recomputed and restored, by tokens, so that they add up. Where it has none (a hit
-- all the same) and for what was new, tokens count at the engine's rates.
--
-- Example: a turn lost 8 s and recomputed 300 tokens for one cause and 100 for another: 6 s and 2 s.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   turn_start_ns BIGINT -- arrival of the turn [ns]
--   resource_id VARCHAR -- the engine start
--   cause VARCHAR -- class.detail
--   source VARCHAR -- recomputed, restored or new
--   evict_span_id VARCHAR -- the eviction that explains it; null where none does
--   evicted_by_turn VARCHAR -- the turn that needed the room; null where none did
--   free_ratio DOUBLE -- of an eviction: KV tokens that were free then, of the pool
--   tokens BIGINT -- its length [tokens]
--   seconds DOUBLE -- its part of what the turn lost; null where that is not known [s]
create or replace view _lost_spans as
select
  c.trace_id,
  c.turn_span_id,
  c.turn_start_ns,
  c.resource_id,
  c.cause,
  c.source,
  c.evict_span_id,
  c.eviction.by_turn as evicted_by_turn,
  c.eviction.free_tokens / nullif(c.eviction.total_tokens, 0)::double as free_ratio,
  c.end_token - c.start_token as tokens,
  case
    when c.source <> 'new' and k.lost_seconds is not null
      then k.lost_seconds * (c.end_token - c.start_token) / (t.recomputed_tokens + t.restored_tokens)
    when c.source = 'restored' then (c.end_token - c.start_token) * r.restore_seconds_per_token
    else (c.end_token - c.start_token) * r.prefill_seconds_per_token
  end as seconds
from causes as c
join _turn_facts as t on t.trace_id = c.trace_id and t.span_id = c.turn_span_id and t.start_ns = c.turn_start_ns
left join turn_costs as k on k.trace_id = c.trace_id and k.span_id = c.turn_span_id and k.start_ns = c.turn_start_ns
left join engine_rates as r on r.resource_id = c.resource_id
where t.complete
  and (c.source in ('recomputed', 'restored') or c.source = 'new' and regexp_matches(c.cause, '^(prefix_changed|state_not_restorable|restore_skipped|placement)[.]'));
