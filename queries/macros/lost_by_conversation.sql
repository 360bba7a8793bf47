-- Who is affected: what the conversations of a range lost, the most seconds to first token first, by the rules of lost_by_cause. Of
-- complete turns.
--
-- Example: from lost_by_conversation('ring0', null, null, null, 10)
--
-- columns
--   conversation_id VARCHAR -- the conversation
--   engine VARCHAR -- which server
--   tenant VARCHAR -- on whose behalf; of several any
--   runs VARCHAR -- labels of the experiments that these turns were of, with commas
--   turns BIGINT -- turns that lost something
--   tokens BIGINT -- recomputed, restored, or new and avoidable [tokens]
--   lost_seconds DOUBLE -- seconds to first token; null where none is known [s]
--   main_cause VARCHAR -- the cause of most of these seconds
--   elsewhere BOOLEAN -- another engine has a conversation of this id that lost something, too
--   of_conversations BIGINT -- conversations that lost something, shown or not
create or replace macro lost_by_conversation(
  the_engine, the_run, since, until, most,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with t as (
  select trace_id, span_id, start_ns, conversation_id, engine, tenant, run, main_cause, not_cache_seconds
  from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
  where complete and conversation_id is not null
),
every as (
  select t.conversation_id, t.engine, t.tenant, t.run, l.cause, t.span_id, l.tokens, l.seconds
  from t
  join _lost_spans as l on l.trace_id = t.trace_id and l.turn_span_id = t.span_id and l.turn_start_ns = t.start_ns
    -- It follows: said of the other side, so that other times are not read.
    and (since is null or l.turn_start_ns >= since)
    and (until is null or l.turn_start_ns < until)
  union all
  select conversation_id, engine, tenant, run, main_cause, span_id, 0, not_cache_seconds
  from t
  where main_cause like 'not_cache.%'
),
by_cause as (
  select
    conversation_id,
    engine,
    cause,
    any_value(tenant) as tenant,
    list(distinct run) filter (run is not null) as runs,
    list(distinct span_id) as spans,
    sum(tokens)::bigint as tokens,
    sum(seconds) as seconds
  from every
  group by conversation_id, engine, cause
)
select
  conversation_id,
  engine,
  any_value(tenant) as tenant,
  list_aggregate(list_sort(list_distinct(flatten(list(runs)))), 'string_agg', ', ') as runs,
  len(list_distinct(flatten(list(spans)))) as turns,
  sum(tokens)::bigint as tokens,
  sum(seconds) as lost_seconds,
  first(cause order by seconds desc nulls last, tokens desc, cause) as main_cause,
  count(*) over (partition by conversation_id) > 1 as elsewhere,
  count(*) over () as of_conversations
from by_cause
group by conversation_id, engine
order by lost_seconds desc nulls last, tokens desc, conversation_id
limit most;
