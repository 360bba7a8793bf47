-- One page of the turns that the filters let through, the latest first. ``ask`` is the id that means this turn and no other: its
-- turn id, or its span id where another engine start has used the same turn id.
--
-- Example: the second fifty: from turns_page(null, null, null, null, 50, 2)
create or replace macro turns_page(the_conversation, the_verdict, the_engine, the_cause, rows_each, page_number) as table
with page as (
  from _filtered_turns(the_conversation, the_verdict, the_engine, the_cause)
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
