-- One row a complete turn whose usage counts other tokens as cached than the events do: the engine's own usage, or what its client was
-- told (view _turn_usage). More than one reuse unit lies between the two, and none of vLLM's known differences does: what was
-- promised at the admission, with or without what a preempted turn found of its own, is no contradiction.
-- A usage that is about another number of prompt tokens is about something else, and says nothing here.
--
-- Example: P 200, hit 96, unit 16; the usage says that 0 were cached:
--
--   counted_cached_tokens
--   0
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   counted_cached_tokens BIGINT -- cached tokens by the usage [tokens]
create or replace view _contradicted_counts as
with promised as (
  select
    trace_id,
    parent_span_id as span_id,
    max_by(admit_hit_tokens + admit_offered_tokens, (end_ns, sequence)) filter (attempt = 1) as tokens
  from spans
  where name = 'scheduler.admit'
  group by all
)
select t.trace_id, t.span_id, u.cached_tokens as counted_cached_tokens
from _turn_spans as t
join _turn_usage as u using (trace_id, span_id)
left join promised as p using (trace_id, span_id)
left join resources as r using (resource_id)
where t.complete
  and u.cached_tokens between 0 and t.prompt_tokens
  -- Anthropic's usage counts the cached ones apart.
  and coalesce(u.input_tokens in (t.prompt_tokens, t.prompt_tokens - u.cached_tokens), true)
  and abs(u.cached_tokens - (t.hit_tokens + t.restored_tokens)) > greatest(coalesce(r.unit_tokens, 1), 1)
  and u.cached_tokens is distinct from p.tokens
  and u.cached_tokens is distinct from p.tokens + coalesce(t.self_recovered_tokens, 0);
