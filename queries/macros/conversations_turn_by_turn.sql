-- The turns of the conversations of one page (macro conversations_page, with the same arguments), to be drawn beside each other: of each
-- conversation the latest ``most`` in the order in which they arrived, numbered within the range.
--
-- Example: from conversations_turn_by_turn(null, null, null, null, 'latest', 10, 1, 40)
--
-- columns
--   conversation_id VARCHAR -- the conversation
--   place BIGINT -- its place in the order of all, from 1
--   turn_number BIGINT -- number of the turn in the conversation, from 1
--   turn_id VARCHAR -- the turn
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
create or replace macro conversations_turn_by_turn(
  the_engine, the_run, since, until, ordered_by, rows_each, page_number, most,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with page as materialized (
  select conversation_id, resource_id, place
  from _conversations_paged(
    the_engine, the_run, since, until, ordered_by, rows_each, page_number, the_replica, the_model, the_tenant, the_conversation
  )
),
numbered as (
  select
    t.*,
    p.place,
    row_number() over (partition by p.place order by t.start_ns, t.turn_id) as turn_number,
    count(*) over (partition by p.place) as of_turns
  from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation) as t
  join page as p on p.conversation_id = t.conversation_id and p.resource_id is not distinct from t.resource_id
)
select
  conversation_id,
  place,
  turn_number,
  turn_id,
  hit_tokens,
  restored_tokens,
  recomputed_tokens,
  new_tokens,
  case when recomputed_tokens is null then computed_tokens end as computed_tokens,
  unobserved_tokens,
  prompt_tokens,
  ttft_ns / 1e9 as ttft_seconds,
  verdict,
  main_cause,
  complete,
  list_aggregate(incomplete_reasons, 'string_agg', ', ') as incomplete_because,
  span_id as ask
from numbered
where turn_number > of_turns - most
order by place, turn_number;
