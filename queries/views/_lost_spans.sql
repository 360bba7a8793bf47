-- One row a span of a complete turn's prompt that cost something: what was recomputed or restored, the new text of a prompt that does
-- not continue its conversation, and what was new here and held elsewhere; with the seconds to first token that it lost. A turn's lost
-- seconds (turn_costs) are shared out so that they add up: by the time that its restores and its computing took, within each by tokens
-- (by tokens alone where no time is known).
--
-- Example: a turn lost 8 s. It restored 500 tokens in 6 s, and computed 300 tokens in 3 s of which 100 had been seen: 6 s of 7 are the
-- restore's, so it lost 6.86 s, and the 100 tokens 1.14 s.
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
    when k.lost_seconds is not null then
      k.lost_seconds * coalesce(
        case
          when c.source = 'restored' then t.restoring * (c.end_token - c.start_token) / t.restored_tokens
          else t.computing * (c.end_token - c.start_token) / t.computed_tokens
        end / nullif(t.restoring + t.computing * t.avoidable_tokens / nullif(t.computed_tokens, 0), 0),
        (c.end_token - c.start_token) / (t.avoidable_tokens + t.restored_tokens)
      )
  end as seconds
from causes as c
join (
  select
    *,
    recomputed_tokens + coalesce(avoidable_new_tokens, 0) as avoidable_tokens,
    case when restored_tokens > 0 then coalesce(restore_ns, 0) / 1e9 else 0 end as restoring,
    case when computed_tokens > 0 then coalesce(compute_ns, 0) / 1e9 else 0 end as computing
  from _turn_facts
) as t on t.trace_id = c.trace_id and t.span_id = c.turn_span_id and t.start_ns = c.turn_start_ns
left join turn_costs as k on k.trace_id = c.trace_id and k.span_id = c.turn_span_id and k.start_ns = c.turn_start_ns
where t.complete
  and (
    c.source in ('recomputed', 'restored')
    or c.source = 'new'
    and split_part(c.cause, '.', 1) in (select class from _avoidable_classes)
  );
