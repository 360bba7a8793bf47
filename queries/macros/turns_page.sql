-- One page of the turns that the filters let through, the latest first. ``ask`` is the id that means this turn and no other: its
-- turn id, or its span id where another engine start has used the same turn id.
--
-- Example: the second fifty: from turns_page(null, null, null, null, null, null, 50, 2)
--
-- columns
--   turn_id VARCHAR -- the turn
--   conversation_id VARCHAR -- its conversation
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   started_at TIMESTAMP_NS -- arrival, UTC
--   verdict VARCHAR -- as in view turns
--   main_cause VARCHAR -- as in view turns
--   prompt_tokens BIGINT -- P [tokens]
--   hit_tokens BIGINT -- KV was on the device [tokens]
--   restored_tokens BIGINT -- KV came from another tier [tokens]
--   recomputed_tokens BIGINT -- computed although seen before; null where S is unknown [tokens]
--   new_tokens BIGINT -- computed, not seen before; null where S is unknown [tokens]
--   unobserved_tokens BIGINT -- the events do not say [tokens]
--   ttft_seconds DOUBLE -- arrival to first token [s]
--   status VARCHAR -- how the turn ended; null while its span has not arrived
--   incomplete_because VARCHAR -- why not complete, with commas
--   ask VARCHAR -- the id that means this turn and no other
create or replace macro turns_page(
  the_engine, the_run, since, until, the_verdict, the_cause, rows_each, page_number,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with page as (
  from _filtered_turns(the_engine, the_run, since, until, the_verdict, the_cause, the_replica, the_model, the_tenant, the_conversation)
  order by start_ns desc, turn_id
  limit rows_each
  offset (page_number - 1) * rows_each
)
select
  turn_id,
  conversation_id,
  engine,
  replica,
  started_at,
  verdict,
  main_cause,
  prompt_tokens,
  hit_tokens,
  restored_tokens,
  recomputed_tokens,
  new_tokens,
  unobserved_tokens,
  ttft_seconds,
  status,
  list_aggregate(incomplete_reasons, 'string_agg', ', ') as incomplete_because,
  case
    when exists (
      from _turn_facts as other
      where other.turn_id = page.turn_id and other.resource_id is distinct from page.resource_id
    )
      then span_id
    else turn_id
  end as ask
from page
order by start_ns desc, turn_id;
