-- One row a turn for which a restore was not tried, within the attempt that its coverage stands on. Of several the one that would
-- have reached furthest; one whose reach is not known comes last.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   span_id VARCHAR -- span of the restore
--   detail VARCHAR -- why, by the names of the causes; unspecified where the engine's word has none
--   reason VARCHAR -- why, as the engine said
--   tier VARCHAR -- the tier that has the KV, or may have it
--   prefix_tokens BIGINT -- how much of the prompt that tier has; null where that is not known [tokens]
create or replace view _skipped_restores as
select
  s.trace_id,
  s.parent_span_id as turn_span_id,
  s.span_id,
  coalesce(l.detail, 'unspecified') as detail,
  s.reason,
  s.tier,
  s.key_tokens as prefix_tokens
from spans as s
join _admissions as a on a.trace_id = s.trace_id and a.turn_span_id = s.parent_span_id and a.attempt = s.attempt
left join _cause_labels as l on l.class = 'restore_skipped' and l.label = lower(s.reason)
where s.name = 'snapshot.restore' and s.outcome = 'skipped'
qualify row_number() over (
  partition by s.trace_id, s.parent_span_id order by s.key_tokens desc nulls last, s.end_ns desc, s.span_id
) = 1;
