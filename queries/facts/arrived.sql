-- Spans that came since the last time, as far as they tell of turns.
create or replace temporary table _arrived as
select
  trace_id, span_id, parent_span_id, name, resource_id, turn_id, conversation_id, run, start_ns, coalesce(end_ns, start_ns) as end_ns, keys,
  tier, key_tokens, span_number
from spans
where span_number > getvariable('facts_after')
  and span_number <= getvariable('facts_upto')
  and name in ('turn', 'turn.correction', 'scheduler.admit', 'prefill', 'snapshot.restore', 'snapshot.publish', 'snapshot.evict');
