-- One page of the conversations of an engine (null: of any), the latest first.
--
-- Example: the second ten: from conversations_page(null, 10, 2)
--
-- columns
--   conversation_id VARCHAR -- the conversation
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   turns BIGINT -- turns, incomplete ones included
--   incomplete_turns BIGINT -- turns left out of the sums
--   first_at TIMESTAMP_NS -- arrival of the first turn, UTC
--   last_at TIMESTAMP_NS -- arrival of the last turn, UTC
--   longest_prompt_tokens BIGINT -- longest prompt of a complete turn [tokens]
--   hit_tokens BIGINT -- sum over complete turns [tokens]
--   restored_tokens BIGINT -- sum over complete turns [tokens]
--   recomputed_tokens BIGINT -- sum over complete turns [tokens]
--   new_tokens BIGINT -- sum over complete turns [tokens]
--   reuse_ratio DOUBLE -- hit or restored of what had been seen / seen tokens, complete turns; null where nothing had been seen
--   median_ttft_seconds DOUBLE -- median time to first token, complete turns [s]
--   worst_ttft_seconds DOUBLE -- longest time to first token, complete turns [s]
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
