-- One row over the turns that the filters let through: how many there are, on how many pages, and the sums of the complete ones.
-- Sums over no turns are null, and so is a ratio without a denominator.
--
-- Example: from turn_totals(null, null, 'vllm', null, 50)
create or replace macro turn_totals(the_conversation, the_verdict, the_engine, the_cause, rows_each) as table
select
  count(*) as turns,
  count(*) filter (complete) as complete_turns,
  count(*) filter (not complete) as incomplete_turns,
  greatest(ceil(count(*) / rows_each)::bigint, 1) as pages,
  (sum(prompt_tokens) filter (complete))::bigint as prompt_tokens,
  (sum(seen_tokens) filter (complete))::bigint as seen_tokens,
  (sum(hit_tokens + restored_tokens) filter (complete and seen_tokens is not null))::bigint as reused_tokens,
  sum(hit_tokens + restored_tokens) filter (complete and seen_tokens is not null)
    / nullif(sum(seen_tokens) filter (complete), 0)::double as reuse_ratio,
  median(ttft_seconds) filter (complete) as median_ttft_seconds
from _filtered_turns(the_conversation, the_verdict, the_engine, the_cause);
