-- The latest turns of one conversation in the order in which they arrived, numbered from its first: tokens by source and time to
-- first token. ``computed_tokens`` are those of a turn for which nobody knows what had been seen. ``ask`` as in turns_page.
--
-- Example: from conversation_turns('agent-3', null, 200)
--
-- columns
--   turn_number BIGINT -- number in the conversation, from 1
--   turn_id VARCHAR -- the turn
--   started_at TIMESTAMP_NS -- arrival, UTC
--   hit_tokens BIGINT -- KV was on the device [tokens]
--   restored_tokens BIGINT -- KV came from another tier [tokens]
--   recomputed_tokens BIGINT -- computed although seen before; null where S is unknown [tokens]
--   new_tokens BIGINT -- computed, not seen before; null where S is unknown [tokens]
--   computed_tokens BIGINT -- computed, where S is unknown; else null [tokens]
--   unobserved_tokens BIGINT -- the events do not say [tokens]
--   prompt_tokens BIGINT -- P [tokens]
--   ttft_seconds DOUBLE -- arrival to first token [s]
--   verdict VARCHAR -- as in view turns
--   main_cause VARCHAR -- as in view turns
--   complete BOOLEAN -- every prompt position was observed without contradiction
--   incomplete_because VARCHAR -- why not complete, with commas
--   ask VARCHAR -- the id that means this turn and no other
create or replace macro conversation_turns(
  the_conversation, the_engine, most, the_run := null, the_replica := null, the_model := null, the_tenant := null
) as table
with chosen as (
  select *, row_number() over (order by start_ns, turn_id) as turn_number
  from _turns_in(the_engine, the_run, null, null, the_replica, the_model, the_tenant, the_conversation)
  qualify turn_number > count(*) over () - most
)
select
  turn_number,
  turn_id,
  started_at,
  hit_tokens,
  restored_tokens,
  recomputed_tokens,
  new_tokens,
  case when recomputed_tokens is null then computed_tokens end as computed_tokens,
  unobserved_tokens,
  prompt_tokens,
  ttft_seconds,
  verdict,
  main_cause,
  complete,
  list_aggregate(incomplete_reasons, 'string_agg', ', ') as incomplete_because,
  case
    when exists (
      from _turn_facts as other
      where other.turn_id = chosen.turn_id and other.resource_id is distinct from chosen.resource_id
    )
      then span_id
    else turn_id
  end as ask
from chosen
order by turn_number;
