-- One page of the conversations of a range, in the order that is asked for.
--
-- Example: from _conversations_paged(null, null, null, null, 'latest', 10, 2)
--
-- columns are those of _conversations_in, and
--   place BIGINT -- place in that order, from 1
create or replace macro _conversations_paged(
  the_engine, the_run, since, until, ordered_by, rows_each, page_number,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with ranked as (
  select
    *,
    case ordered_by
      when 'latest' then last_ns
      when 'recomputed' then recomputed_tokens
      when 'restored' then restored_tokens
      when 'slowest' then worst_ttft_seconds
      when 'longest' then longest_prompt_tokens
      else error(
        'Conversations are not ordered by ' || coalesce(ordered_by, 'null') || ': latest, recomputed, restored, slowest or longest.'
      )
    end::double as rank
  from _conversations_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
),
ordered as (
  select *, row_number() over (order by rank desc nulls last, conversation_id, resource_id) as place
  from ranked
)
select * exclude (rank)
from ordered
where place > (page_number - 1) * rows_each and place <= page_number * rows_each;
