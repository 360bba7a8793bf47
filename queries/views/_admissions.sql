-- One row a turn: the admission that its coverage stands on (the last one before the first token).
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   span_id VARCHAR -- span of the admission
--   at_ns BIGINT -- when it was accepted [ns]
--   attempt BIGINT -- which attempt of the turn
--   hit_tokens BIGINT -- found on the device [tokens]
--   offered_tokens BIGINT -- offered by another tier beyond the hit [tokens]
--   lease_tokens BIGINT -- held by a lease beyond the hit [tokens]
--   local_tokens BIGINT -- usable on the device whether used or not [tokens]
--   matched_tokens BIGINT -- prefix whose tokens match what the engine has; null where that is not known [tokens]
--   not_restorable VARCHAR -- why its state does not exist as far as it matches, by the names of the causes
--   not_restorable_reason VARCHAR -- the same, as the engine said
--   elsewhere VARCHAR -- held elsewhere, as was told: other_replica, other_slot or router
--   elsewhere_tokens BIGINT -- prefix that was held there; null where that is not known [tokens]
--   elsewhere_holder VARCHAR -- the replica or the slot that held it
--   tier VARCHAR -- tier of the offer
--   offer_end_tokens BIGINT -- how far any admission of this attempt reached with its offer [tokens]
--   first_at_ns BIGINT -- when the turn's first admission was accepted [ns]
create or replace view _admissions as
select
  admit.trace_id,
  admit.parent_span_id as turn_span_id,
  admit.span_id,
  admit.end_ns as at_ns,
  admit.attempt,
  admit.admit_hit_tokens as hit_tokens,
  admit.admit_offered_tokens as offered_tokens,
  admit.admit_lease_tokens as lease_tokens,
  admit.admit_local_tokens as local_tokens,
  admit.admit_matched_tokens as matched_tokens,
  case when admit.admit_not_restorable is not null then coalesce(label.detail, 'unspecified') end as not_restorable,
  admit.admit_not_restorable as not_restorable_reason,
  admit.admit_elsewhere as elsewhere,
  admit.admit_elsewhere_tokens as elsewhere_tokens,
  admit.admit_elsewhere_holder as elsewhere_holder,
  admit.tier,
  max(admit.admit_hit_tokens + admit.admit_lease_tokens + admit.admit_offered_tokens) over (
    partition by admit.trace_id, admit.parent_span_id, admit.attempt
  ) as offer_end_tokens,
  min(admit.end_ns) over (partition by admit.trace_id, admit.parent_span_id) as first_at_ns
from spans as admit
left join spans as turn on turn.name = 'turn' and turn.trace_id = admit.trace_id and turn.span_id = admit.parent_span_id
left join _cause_labels as label
  on label.class = 'state_not_restorable' and label.label = lower(admit.admit_not_restorable)
where admit.name = 'scheduler.admit'
  and (turn.ttft_ns is null or admit.end_ns <= turn.start_ns + turn.ttft_ns)
qualify row_number() over (partition by admit.trace_id, admit.parent_span_id order by admit.end_ns desc, admit.attempt desc, admit.sequence desc, admit.span_id desc) = 1;
