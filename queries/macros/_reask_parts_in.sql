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
create or replace macro _reask_parts_in(the_engine, the_run, since, until, the_start := null) as table
select
  t.trace_id,
  t.span_id,
  t.resource_id,
  t.turn_id,
  t.conversation_id,
  c.used_ns,
  c.admitted_ns,
  min(c.start_token) as start_token,
  max(c.end_token) as end_token,
  max_by(c.provided_by_turn, c.end_token) as provided_by_turn,
  sum(c.end_token - c.start_token)::bigint as seen_tokens,
  coalesce(sum(c.end_token - c.start_token) filter (c.source = 'hit'), 0)::bigint as hit_tokens,
  coalesce(sum(c.end_token - c.start_token) filter (c.source = 'restored'), 0)::bigint as restored_tokens
from _verdicts_in(the_engine, the_run, since, until) as t
join causes as c on c.trace_id = t.trace_id and c.turn_span_id = t.span_id
where t.complete
  and (the_start is null or t.resource_id = the_start)
  and t.seen_basis = 'keys'
  and t.seen_tokens > 0
  and c.source in ('hit', 'restored', 'recomputed')
  and c.provided_by_turn is not null
  and c.used_ns <= c.admitted_ns
group by all;
