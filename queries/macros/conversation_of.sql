-- One conversation turn by turn: how long the prompt is and how much it grew, what share of it came from where, how long it took
-- and why. A turn without a conversation id is in the conversation that its prefix continues, and says so. A share is of the
-- turn's prompt tokens; the shares of a complete turn make 1. Of an incomplete turn the cached share is not known.
--
-- Turns that bring no id take long to find in a large store: where there are none, named_conversation gives the same and is quick.
--
-- Example: from conversation_of('agent-3')
--
-- A table of one line a turn as users write it down, cached meaning hit or restored, latency the whole time from arrival to the
-- last token: select turn, prompt_tokens, cached_ratio, total_seconds as latency_s from conversation_of('agent-3')
--
-- columns
--   turn BIGINT -- number in the conversation, from 1
--   turn_id VARCHAR -- the turn
--   prompt_tokens BIGINT -- P [tokens]
--   growth_tokens BIGINT -- P less that of the turn that it continues; null for a first one [tokens]
--   cached_ratio DOUBLE -- (hit + restored) / P: not computed by this turn, wherever it was; null where incomplete
--   hit_ratio DOUBLE -- hit / P: was on the device
--   restored_ratio DOUBLE -- restored / P: came from another tier
--   recomputed_ratio DOUBLE -- recomputed / P: computed although seen before; null where S is unknown
--   new_ratio DOUBLE -- new / P: computed, not seen before; null where S is unknown
--   ttft_seconds DOUBLE -- arrival to first token [s]
--   total_seconds DOUBLE -- arrival to finish [s]
--   verdict VARCHAR -- as in view turns
--   main_cause VARCHAR -- as in view turns
--   started_at TIMESTAMP_NS -- arrival, UTC
--   computed_ratio DOUBLE -- computed / P where recomputed and new are not told apart; else null
--   unobserved_ratio DOUBLE -- the events do not say / P
--   linked_by VARCHAR -- id, prefix or shared_prefix (both derived)
--   previous_turn VARCHAR -- the turn that it continues
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   incomplete_because VARCHAR -- why not complete
create or replace macro conversation_of(the_conversation) as table
select
  row_number() over (order by t.start_ns, t.turn_id) as turn,
  t.turn_id,
  t.prompt_tokens,
  t.prompt_tokens - m.previous_prompt_tokens as growth_tokens,
  t.cached_ratio,
  t.hit_ratio,
  t.restored_ratio,
  t.recomputed_ratio,
  t.new_ratio,
  t.ttft_seconds,
  t.total_seconds,
  t.verdict,
  t.main_cause,
  t.started_at,
  t.computed_ratio,
  t.unobserved_ratio,
  m.linked_by,
  m.previous_turn_id as previous_turn,
  t.engine,
  t.replica,
  t.incomplete_because
from linked_turns as m
join _turn_shares as t using (trace_id, span_id)
where m.conversation_id = the_conversation
order by turn;
