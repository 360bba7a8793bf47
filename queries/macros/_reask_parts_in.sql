-- The parts of prompts that macro reasks is about: what of a turn's seen prefix was brought by an earlier turn and was last used at
-- one time, and how much of it was reused.
--
-- Example: from _reask_parts_in('ring0', null, null, null)
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   resource_id VARCHAR -- the engine start
--   turn_id VARCHAR -- the turn that asks again
--   conversation_id VARCHAR -- its conversation
--   used_ns BIGINT -- last use before this turn [ns]
--   admitted_ns BIGINT -- the admission [ns]
--   start_token BIGINT -- where the part begins [tokens]
--   end_token BIGINT -- position past its last [tokens]
--   provided_by_turn VARCHAR -- the turn that had brought it, of several the one of the deepest
--   seen_tokens BIGINT -- length of the part [tokens]
--   hit_tokens BIGINT -- of it on the device still [tokens]
--   restored_tokens BIGINT -- of it brought back from another tier [tokens]
create or replace macro _reask_parts_in(the_engine, the_run, since, until) as table
with segments as (
  select
    t.trace_id,
    t.span_id,
    t.resource_id,
    t.turn_id,
    t.conversation_id,
    unnest(t.segments_start_tokens) as start_token,
    unnest(t.segments_end_tokens) as end_token,
    unnest(t.segments_source) as source,
    unnest(t.segments_provider) as provider,
    unnest(t.segments_used_ns) as used_ns
  from _verdicts_in(the_engine, the_run, since, until) as t
  where t.complete and t.seen_basis = 'keys' and t.seen_tokens > 0
)
select
  g.trace_id,
  g.span_id,
  g.resource_id,
  g.turn_id,
  g.conversation_id,
  g.used_ns,
  a.at_ns as admitted_ns,
  min(start_token) as start_token,
  max(end_token) as end_token,
  max_by(provider, end_token) as provided_by_turn,
  sum(end_token - start_token)::bigint as seen_tokens,
  coalesce(sum(end_token - start_token) filter (source = 'hit'), 0)::bigint as hit_tokens,
  coalesce(sum(end_token - start_token) filter (source = 'restored'), 0)::bigint as restored_tokens
from segments as g
join _admissions as a on a.trace_id = g.trace_id and a.turn_span_id = g.span_id
where source in ('hit', 'restored', 'recomputed') and provider <> '' and used_ns > 0 and used_ns <= a.at_ns
group by all;
