-- One page of the conversations of a range, in the order that is asked for, the first of it first. Figures are of a conversation's turns within the range.
--
-- Example: the second ten: from conversations_page(null, null, null, null, 'latest', 10, 2)
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
--   runs VARCHAR -- labels of the experiments, with commas
--   run VARCHAR -- the label, where all of its turns have one and the same
--   elsewhere BOOLEAN -- another engine start has a conversation of this id in the range, too
create or replace macro conversations_page(
  the_engine, the_run, since, until, ordered_by, rows_each, page_number,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select
  conversation_id,
  engine,
  replica,
  turns,
  incomplete_turns,
  make_timestamp_ns(first_ns) as first_at,
  make_timestamp_ns(last_ns) as last_at,
  longest_prompt_tokens,
  hit_tokens,
  restored_tokens,
  recomputed_tokens,
  new_tokens,
  reused_tokens / nullif(seen_tokens, 0)::double as reuse_ratio,
  median_ttft_seconds,
  worst_ttft_seconds,
  runs,
  run,
  elsewhere
from _conversations_paged(
    the_engine, the_run, since, until, ordered_by, rows_each, page_number, the_replica, the_model, the_tenant, the_conversation
  )
order by place;
