-- One row a turn whose last restore within the attempt that its coverage stands on did not end verified.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   span_id VARCHAR -- span of the restore
--   outcome VARCHAR -- failed, cancelled, timed_out or stale
--   reason VARCHAR -- why, as the engine said
--   tier VARCHAR -- from which tier
--   tokens BIGINT -- requested [tokens]
--   valid_prefix_tokens BIGINT -- absolute prefix that was usable at the end [tokens]
--   attempt BIGINT -- within which attempt
create or replace view _failed_restores as
select
  s.trace_id,
  s.parent_span_id as turn_span_id,
  s.span_id,
  s.outcome,
  s.reason,
  s.tier,
  s.tokens,
  s.valid_prefix_tokens,
  s.attempt
from spans as s
join _admissions as a on a.trace_id = s.trace_id and a.turn_span_id = s.parent_span_id and a.attempt = s.attempt
where s.name = 'snapshot.restore' and s.outcome is distinct from 'skipped'
qualify row_number() over (partition by s.trace_id, s.parent_span_id order by s.end_ns desc, s.start_ns desc, s.span_id desc) = 1
  and s.outcome <> 'verified';
