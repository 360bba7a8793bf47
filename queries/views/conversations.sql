-- One row a conversation: how long it grew, where its prompt tokens came from, and how slow it got.
-- Incomplete turns are counted, and left out of every sum.
--
-- Example: a turn of 100 tokens, all new, and one of 140 that hit 96 of them and computed 4 again:
--
--   conversation_id  turns  longest_prompt_tokens  hit_tokens  recomputed_tokens  new_tokens  reuse_ratio
--   agent-3          2      140                    96          4                  140         0.96
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
--   prompt_tokens HUGEINT -- sum over complete turns [tokens]
--   hit_tokens HUGEINT -- sum over complete turns [tokens]
--   restored_tokens HUGEINT -- sum over complete turns [tokens]
--   recomputed_tokens HUGEINT -- sum over complete turns [tokens]
--   new_tokens HUGEINT -- sum over complete turns [tokens]
--   reuse_ratio DOUBLE -- hit or restored of what had been seen / seen tokens, complete turns; null where nothing had been seen
--   median_ttft_seconds DOUBLE -- median time to first token, complete turns [s]
--   worst_ttft_seconds DOUBLE -- longest time to first token, complete turns [s]
--   resource_id VARCHAR -- the engine start
create or replace view conversations as
select
  conversation_id,
  engine,
  replica,
  count(*) as turns,
  count(*) filter (not complete) as incomplete_turns,
  make_timestamp_ns(min(start_ns)) as first_at,
  make_timestamp_ns(max(start_ns)) as last_at,
  max(prompt_tokens) filter (complete) as longest_prompt_tokens,
  sum(prompt_tokens) filter (complete) as prompt_tokens,
  sum(hit_tokens) filter (complete) as hit_tokens,
  sum(restored_tokens) filter (complete) as restored_tokens,
  sum(recomputed_tokens) filter (complete) as recomputed_tokens,
  sum(new_tokens) filter (complete) as new_tokens,
  -- What a turn restores of its own, after a preemption, had not been seen before: it is no reuse of what had.
  sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null)
    / nullif(sum(seen_tokens) filter (complete), 0)::double as reuse_ratio,
  median(ttft_ns / 1e9) filter (complete) as median_ttft_seconds,
  max(ttft_ns) filter (complete) / 1e9 as worst_ttft_seconds,
  resource_id
from _turn_verdicts
where conversation_id is not null
group by conversation_id, engine, replica, resource_id;
