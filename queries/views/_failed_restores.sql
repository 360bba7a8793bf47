-- One row a turn whose last restore did not end verified.
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
select trace_id, parent_span_id as turn_span_id, span_id, outcome, reason, tier, tokens, valid_prefix_tokens, attempt
from spans
where name = 'snapshot.restore'
qualify row_number() over (partition by trace_id, parent_span_id order by end_ns desc, start_ns desc) = 1
  and outcome <> 'verified';
