-- The turns of one conversation that bring its id, as conversation_of shows them.
--
-- Example: from named_conversation('agent-3')
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
--   linked_by VARCHAR -- id
--   previous_turn VARCHAR -- the turn that it continues
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   incomplete_because VARCHAR -- why not complete
create or replace macro named_conversation(the_conversation) as table
select
  row_number() over in_order as turn,
  t.turn_id,
  t.prompt_tokens,
  t.prompt_tokens - lag(t.prompt_tokens) over continued as growth_tokens,
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
  'id' as linked_by,
  lag(t.turn_id) over continued as previous_turn,
  t.engine,
  t.replica,
  t.incomplete_because
from _turn_shares as t
where t.conversation_digest = md5_number_lower(the_conversation) and t.conversation_id = the_conversation
window
  in_order as (order by t.start_ns, t.turn_id),
  continued as (partition by t.engine, t.run order by t.start_ns, t.turn_id)
order by turn;
