-- The spans of one turn's prompt with their causes, in order, each with the eviction that explains it where one does. Where the
-- turn's arrival is known (``at_ns``), the search is quick.
--
-- Example: from causes_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of causes but eviction, trace_id, turn_span_id, resource_id, turn_start_ns, and
--   eviction STRUCT -- at_ns, by_turn, by_conversation, reason, tokens, keys, idle_seconds, what was free, policy, span_id; else null
create or replace macro causes_of(trace, span, at_ns := null) as table
with own as (
  from causes as c
  where c.trace_id = trace and c.turn_span_id = span and (at_ns is null or c.turn_start_ns = at_ns)
),
evictors as (
  select resource_id, turn_id, conversation_id
  from _turn_facts
  where turn_digest in (select md5_number_lower(eviction.by_turn) from own)
)
select
  c.* exclude (trace_id, turn_span_id, resource_id, turn_start_ns)
    replace (
      case
        when c.eviction is not null then {
          'at_ns': c.eviction.at_ns,
          'by_turn': c.eviction.by_turn,
          'by_conversation': by_turn.conversation_id,
          'reason': c.eviction.reason,
          'tokens': c.eviction.tokens,
          'keys': c.eviction.keys,
          'idle_seconds': c.eviction.idle_seconds,
          'free_slots': c.eviction.free_slots,
          'total_slots': c.eviction.total_slots,
          'free_tokens': c.eviction.free_tokens,
          'total_tokens': c.eviction.total_tokens,
          'policy': c.eviction.policy,
          'span_id': c.eviction.span_id
        }
      end as eviction
    )
from own as c
left join evictors as by_turn on by_turn.turn_id = c.eviction.by_turn and by_turn.resource_id = c.resource_id
order by c.start_token;
