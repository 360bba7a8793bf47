-- Spans that came since the last time, as far as they tell of turns.
create or replace temporary table _arrived as
with ours as (
  select
    trace_id, span_id, parent_span_id, name, resource_id, turn_id, conversation_id, run, start_ns, coalesce(end_ns, start_ns) as end_ns, keys,
    tier, key_tokens, span_number, false as is_usage
  from spans
  where span_number > getvariable('facts_after')
    and span_number <= getvariable('facts_upto')
    and name in ('turn', 'turn.correction', 'scheduler.admit', 'prefill', 'snapshot.restore', 'snapshot.publish', 'snapshot.evict')
),
-- A span of another program that counts the tokens of a turn in its trace.
usages as (
  select
    trace_id, span_id, parent_span_id, name, resource_id, start_ns, coalesce(end_ns, start_ns) as end_ns, span_number, true as is_usage
  from spans
  where span_number > getvariable('facts_after')
    and span_number <= getvariable('facts_upto')
    and name not in ('turn', 'turn.correction', 'scheduler.admit', 'prefill')
    and not starts_with(name, 'snapshot.')
    and (
      cache_read_tokens is not null
      or attributes."gen_ai.usage.cached_tokens" is not null
      or attributes."gen_ai.usage.cache_read_input_tokens" is not null
    )
)
from ours
union all by name
from usages;
