-- One page of the conversations of an engine (null: of any), the latest first.
--
-- Example: the second ten: from conversations_page(null, 10, 2)
create or replace macro conversations_page(the_engine, rows_each, page_number) as table
select
  conversation_id,
  engine,
  replica,
  turns,
  incomplete_turns,
  first_at,
  last_at,
  longest_prompt_tokens,
  hit_tokens::bigint as hit_tokens,
  restored_tokens::bigint as restored_tokens,
  recomputed_tokens::bigint as recomputed_tokens,
  new_tokens::bigint as new_tokens,
  reuse_ratio,
  median_ttft_seconds,
  worst_ttft_seconds
from conversations
where the_engine is null or engine = the_engine
order by last_at desc, conversation_id
limit rows_each
offset (page_number - 1) * rows_each;
