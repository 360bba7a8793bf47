-- The sums over a range, of complete turns; incomplete ones are counted.
--
-- Example: from report_totals('ring0', null, null, null)
--
-- columns
--   turns BIGINT -- turns in the range
--   incomplete_turns BIGINT -- of these, not whole
--   conversations BIGINT -- conversations
--   first_ns BIGINT -- arrival of the first [ns]
--   last_ns BIGINT -- arrival of the last [ns]
--   prompt_tokens BIGINT -- of complete turns [tokens]
--   hit_tokens BIGINT -- [tokens]
--   restored_tokens BIGINT -- [tokens]
--   recomputed_tokens BIGINT -- [tokens]
--   new_tokens BIGINT -- [tokens]
--   computed_tokens BIGINT -- of turns for which nobody knows what had been seen [tokens]
--   seen_tokens BIGINT -- had been seen before [tokens]
--   reuse_ratio DOUBLE -- hit or restored, of what had been seen before
--   median_ttft_seconds DOUBLE -- time to first token [s]
create or replace macro report_totals(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select
  count(*) as turns,
  count(*) filter (not complete) as incomplete_turns,
  count(distinct conversation_id) as conversations,
  min(start_ns) as first_ns,
  max(start_ns) as last_ns,
  (sum(prompt_tokens) filter (complete))::bigint as prompt_tokens,
  (sum(hit_tokens) filter (complete))::bigint as hit_tokens,
  (sum(restored_tokens) filter (complete))::bigint as restored_tokens,
  (sum(recomputed_tokens) filter (complete))::bigint as recomputed_tokens,
  (sum(new_tokens) filter (complete))::bigint as new_tokens,
  (sum(computed_tokens) filter (complete and recomputed_tokens is null))::bigint as computed_tokens,
  (sum(seen_tokens) filter (complete))::bigint as seen_tokens,
  sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null)
    / nullif(sum(seen_tokens) filter (complete), 0)::double as reuse_ratio,
  median(ttft_seconds) filter (complete) as median_ttft_seconds
from _turns_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation);
