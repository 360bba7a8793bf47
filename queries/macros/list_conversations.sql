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
--   hit HUGEINT -- sum over complete turns [tokens]
--   restored HUGEINT -- sum over complete turns [tokens]
--   recomputed HUGEINT -- sum over complete turns [tokens]
--   new HUGEINT -- sum over complete turns [tokens]
--   reuse_ratio DOUBLE -- hit or restored of what had been seen / seen tokens, complete turns; null where nothing had been seen
--   median_ttft_s DOUBLE -- median time to first token, complete turns [s]
--   worst_ttft_s DOUBLE -- longest time to first token, complete turns [s]
--   run VARCHAR -- label of the experiment; of several, with commas
create or replace macro list_conversations(the_engine, the_run, since, until, most) as table
select * exclude (resource_id)
from (
  select
    conversation_id as conversation,
    engine,
    count(*) as turns,
    count(*) filter (not complete) as incomplete,
    make_timestamp_ns(min(start_ns)) as first_at,
    make_timestamp_ns(max(start_ns)) as last_at,
    max(prompt_tokens) filter (complete) as longest_prompt,
    sum(hit_tokens) filter (complete) as hit,
    sum(restored_tokens) filter (complete) as restored,
    sum(recomputed_tokens) filter (complete) as recomputed,
    sum(new_tokens) filter (complete) as new,
    sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null)
      / nullif(sum(seen_tokens) filter (complete), 0)::double as reuse_ratio,
    median(ttft_ns / 1e9) filter (complete) as median_ttft_s,
    max(ttft_ns) filter (complete) / 1e9 as worst_ttft_s,
    string_agg(distinct run, ', ' order by run) as run,
    resource_id
  from _verdicts_in(the_engine, the_run, since, until)
  where conversation_id is not null
  group by conversation_id, engine, resource_id
  order by last_at desc
  limit most
) as latest
order by first_at, conversation;
