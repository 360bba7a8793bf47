-- The spans of one turn's prompt with their causes, in order, each with the eviction that explains it where one does.
--
-- Example: from causes_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of causes but trace_id, turn_span_id, resource_id, and
--   eviction STRUCT -- at_ns, by_turn, by_conversation, reason, tokens, keys, idle_seconds, what was free, policy, span_id; else null
create or replace macro causes_of(trace, span) as table
select
  c.* exclude (trace_id, turn_span_id, resource_id),
  case
    when e.span_id is not null then {
      'at_ns': e.at_ns,
      'by_turn': e.for_turn,
      'by_conversation': by_turn.conversation_id,
      'reason': e.reason,
      'tokens': e.tokens,
      'keys': e.keys_evicted,
      'idle_seconds': e.idle_seconds,
      'free_slots': e.free_slots,
      'total_slots': e.total_slots,
      'free_tokens': e.free_tokens,
      'total_tokens': e.total_tokens,
      'policy': e.policy,
      'span_id': e.span_id
    }
  end as eviction
from causes as c
left join evictions as e on e.span_id = c.evict_span_id and e.resource_id = c.resource_id
left join _turn_spans as by_turn on by_turn.trace_id = e.trace_id and by_turn.turn_id = e.for_turn
where c.trace_id = trace and c.turn_span_id = span
order by c.start_token;
