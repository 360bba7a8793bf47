-- The latest conversations of a range in the order in which they began, for a list. Figures are of the conversation's turns within
-- the range; over everything they are those of view conversations.
--
-- Example: from list_conversations('ring0', null, null, null, 20)
--
-- columns
--   conversation VARCHAR -- the conversation
--   engine VARCHAR -- which server
--   turns BIGINT -- turns, incomplete ones included
--   incomplete BIGINT -- turns left out of the sums
--   first_at TIMESTAMP_NS -- arrival of the first turn, UTC
--   last_at TIMESTAMP_NS -- arrival of the last turn, UTC
--   longest_prompt BIGINT -- longest prompt of a complete turn [tokens]
--   hit BIGINT -- sum over complete turns [tokens]
--   restored BIGINT -- sum over complete turns [tokens]
--   recomputed BIGINT -- sum over complete turns [tokens]
--   new BIGINT -- sum over complete turns [tokens]
--   reuse_ratio DOUBLE -- hit or restored of what had been seen / seen tokens, complete turns; null where nothing had been seen
--   median_ttft_s DOUBLE -- median time to first token, complete turns [s]
--   worst_ttft_s DOUBLE -- longest time to first token, complete turns [s]
--   run VARCHAR -- label of the experiment; of several, with commas
create or replace macro list_conversations(the_engine, the_run, since, until, most) as table
select
  conversation_id as conversation,
  engine,
  turns,
  incomplete_turns as incomplete,
  make_timestamp_ns(first_ns) as first_at,
  make_timestamp_ns(last_ns) as last_at,
  longest_prompt_tokens as longest_prompt,
  hit_tokens as hit,
  restored_tokens as restored,
  recomputed_tokens as recomputed,
  new_tokens as new,
  reused_tokens / nullif(seen_tokens, 0)::double as reuse_ratio,
  median_ttft_seconds as median_ttft_s,
  worst_ttft_seconds as worst_ttft_s,
  runs as run
from (
  from _conversations_in(the_engine, the_run, since, until)
  order by last_ns desc
  limit most
) as latest
order by first_ns, conversation_id;
