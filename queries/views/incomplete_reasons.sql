-- One row a reason why a turn can be incomplete: what it says, and what to do. Calls that made no sense (bad_*) are the engine's.
--
-- Example: select meaning, next_step from incomplete_reasons where reason = 'records_dropped'
--
-- columns
--   reason VARCHAR -- as in incomplete_reasons of view turns
--   meaning VARCHAR -- what it says
--   next_step VARCHAR -- what to do
create or replace view incomplete_reasons as
with hooks(next_step) as (
  values ('The engine''s hooks tell its decisions in a wrong order or not all of them: report it with the turn, and the versions.')
),
calls(next_step) as (
  values ('The engine passes the recorder something of a wrong kind: its log says what, on a line that begins with turnlens:.')
),
known(reason, meaning, next_step) as (
  values
    (
      'records_dropped',
      'the recorder''s buffer was full while the turn ran, and records were lost',
      'Raise TURNLENS_BUFFER (65,536 records unless it is set), or give the engine''s process more CPU.'
    ),
    (
      'positions_unobserved',
      'no event says where some positions came from; of a turn that was left early, they were never reached',
      'Nothing, where the client left. Else look at the other reasons of the turn.'
    ),
    (
      'turn_not_finished',
      'the turn''s end has not arrived',
      'Wait, or see whether the engine died; a recorder that is closed sends what it has.'
    ),
    (
      'accounts_missing',
      'a span of the name turn came without an account',
      'See who sends it: it is no turn of this recorder, or attributes were cut on the way.'
    ),
    (
      'parts_do_not_sum',
      'hit, restored and computed tokens do not make up the prompt',
      'Report it with the turn: the recorder and the SQL disagree.'
    ),
    (
      'hook_failed',
      'a hook in the engine raised, and the engine went on',
      'Look for the traceback in the engine''s log (turnlens:); the hooks may not fit this version of the engine.'
    ),
    (
      'offer_never_finalized',
      'a restore was offered and its end not told before a step used the prefix',
      'Nothing, where the client left. Else the engine must call restore_finalized, also for synchronous loads.'
    ),
    (
      'attribution_across_attempts',
      'its engine counts the work of all attempts together, and was preempted: what each did is not known',
      'Nothing. An engine with the recorder inside tells attempts apart.'
    ),
    (
      'attribution_incomplete',
      'its engine itself says that its account of the turn is not complete, or left a part of it out',
      'See the engine''s log at that time.'
    ),
    ('step_while_restore_pending', 'a step ran while a restore was under way', null),
    ('step_beyond_known_prefix', 'a step began beyond the prefix that is known to be held', null),
    ('step_without_attempt', 'a step ran before the turn was admitted', null),
    ('restore_without_attempt', 'a restore began before the turn was admitted', null),
    ('restore_started_twice', 'a second restore began while one was under way', null),
    ('restore_ambiguous', 'a restore ended and two could be meant', null),
    ('restore_exceeds_offer', 'a restore brought more than had been offered', null),
    ('finalize_without_restore', 'a restore ended that had not begun', null),
    ('admitted_twice', 'the turn was admitted again without a preemption', null),
    ('preempted_without_attempt', 'the turn was preempted before it was admitted', null),
    ('event_after_end', 'an event came after the turn''s end', null),
    ('negative_value', 'a count was negative', null),
    ('value_beyond_prompt', 'a count was larger than the prompt', null),
    ('prompt_tokens_unknown', 'the engine did not say how long the prompt is', null),
    ('unknown_tier', 'a restore came from a tier of another name than device, host, disk, remote, peer', ''),
    ('unknown_status', 'the turn ended with a status of another name than the conventions have', ''),
    ('bad_prompt_tokens', 'the length of the prompt was no whole number', ''),
    ('bad_output_tokens', 'the count of generated tokens was no whole number', ''),
    ('bad_arrived_ns', 'the time of arrival was no whole number', ''),
    ('bad_at_ns', 'the time of an event was no whole number', ''),
    ('bad_prefix', 'keys or positions of the prefix could not be read', ''),
    ('bad_step', 'positions of a step were no whole numbers', '')
)
select
  reason,
  meaning,
  case when known.next_step is null then hooks.next_step when known.next_step = '' then calls.next_step else known.next_step end as next_step
from known, hooks, calls;
