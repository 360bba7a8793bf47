-- One row a span of a turn, in the order in which they began: the turn itself, queue (waiting for an admission), restores,
-- prefill, publishes, and the evictions that made room for it.
--
-- Example: a turn waited 0.5 s, computed 1,100 tokens in 1.5 s, and answered:
--
--   name             start_seconds  seconds  tokens
--   turn             0              4.0      1100
--   scheduler.admit  0.1            0.5      0
--   prefill          0.6            1.5      1100
--
-- columns
--   turn_id VARCHAR -- the turn
--   name VARCHAR -- name of the span
--   start_seconds DOUBLE -- since the turn's arrival [s]
--   seconds DOUBLE -- how long it took [s]
--   attempt BIGINT -- attempt of the turn
--   tokens BIGINT -- tokens concerned [tokens]
--   outcome VARCHAR -- how it ended
--   reason VARCHAR -- why
--   tier VARCHAR -- which tier
--   span_id VARCHAR -- the span
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   start_ns BIGINT -- when it began [ns]
--   turn_start_ns BIGINT -- arrival of the turn [ns]
create or replace view waterfall as
select
  t.turn_id,
  s.name,
  (s.start_ns - t.start_ns) / 1e9 as start_seconds,
  (s.end_ns - s.start_ns) / 1e9 as seconds,
  s.attempt,
  coalesce(s.tokens, s.prompt_tokens, s.admit_hit_tokens + s.admit_offered_tokens) as tokens,
  coalesce(s.outcome, s.status) as outcome,
  coalesce(s.reason, list_aggregate(s.retry_reasons, 'string_agg', ', ')) as reason,
  s.tier,
  s.span_id,
  s.trace_id,
  t.span_id as turn_span_id,
  s.start_ns,
  t.start_ns as turn_start_ns
from _turn_facts as t
join spans as s
  on s.trace_id = t.trace_id and (s.span_id = t.span_id or s.parent_span_id = t.span_id) and s.name <> 'turn.correction';
