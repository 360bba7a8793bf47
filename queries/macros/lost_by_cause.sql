-- What each cause cost over a range, the most seconds first: tokens that were recomputed or restored because of it, and seconds to
-- first token lost (by the rules of _lost_spans; of not_cache.* the seconds that view turns names). Incomplete turns are left out.
--
-- Example: from lost_by_cause('ring0', null, null, null)
--
-- columns
--   cause VARCHAR -- class.detail
--   turns BIGINT -- turns that have it
--   conversations BIGINT -- conversations of these
--   tokens BIGINT -- prompt tokens that it concerns [tokens]
--   lost_seconds DOUBLE -- seconds to first token; null where no turn could be compared [s]
--   unknown_turns BIGINT -- turns of which the seconds are not known
--   mostly_by VARCHAR -- of evictions, the conversation that needed the room for most of these tokens
--   mostly_by_ratio DOUBLE -- its share of these tokens
--   free_ratio DOUBLE -- of evictions: KV tokens that were free meanwhile, of the pool, weighted by tokens
create or replace macro lost_by_cause(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with t as (
  from _turns_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
  where complete
),
weighed as (
  select
    l.cause,
    t.trace_id,
    t.span_id,
    t.conversation_id,
    l.tokens,
    l.seconds,
    by_turn.conversation_id as by_conversation,
    l.free_ratio
  from t
  join _lost_spans as l on l.trace_id = t.trace_id and l.turn_span_id = t.span_id and l.turn_start_ns = t.start_ns
    -- It follows: said of the other side, so that other times are not read.
    and (since is null or l.turn_start_ns >= since)
    and (until is null or l.turn_start_ns < until)
  left join _turn_facts as by_turn on by_turn.resource_id = l.resource_id and by_turn.turn_id = l.evicted_by_turn
),
every as (
  from weighed
  union all
  select main_cause, trace_id, span_id, conversation_id, 0, not_cache_seconds, null, null from t where main_cause like 'not_cache.%'
),
by_whom as (
  select cause, by_conversation, sum(tokens) as tokens
  from every
  where by_conversation is not null
  group by cause, by_conversation
),
mostly as (
  select cause, first(by_conversation order by tokens desc, by_conversation) as mostly_by, max(tokens) / sum(tokens)::double as mostly_by_ratio
  from by_whom
  group by cause
)
select
  e.cause,
  count(distinct e.trace_id || e.span_id) as turns,
  count(distinct e.conversation_id) as conversations,
  sum(e.tokens)::bigint as tokens,
  sum(e.seconds) as lost_seconds,
  count(distinct e.trace_id || e.span_id) filter (e.seconds is null) as unknown_turns,
  any_value(m.mostly_by) as mostly_by,
  any_value(m.mostly_by_ratio) as mostly_by_ratio,
  sum(e.free_ratio * e.tokens) / nullif(sum(e.tokens) filter (e.free_ratio is not null), 0) as free_ratio
from every as e
left join mostly as m using (cause)
group by e.cause
order by lost_seconds desc nulls last, tokens desc, e.cause;
