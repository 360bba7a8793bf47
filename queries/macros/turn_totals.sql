-- One row over the turns that the filters let through: how many there are, on how many pages, and the sums of the complete ones.
-- ``sources`` has their prompt tokens by source and adds up to them; of turns for which nobody knows what had been seen, the
-- computed tokens stand as ``computed``. Sums over no turns are null, and so is a ratio without a denominator.
--
-- Example: from turn_totals(null, null, null, null, null, null, 25) where two complete turns of 100 and 300 tokens hit 240 of them:
--
--   turns  complete_turns  prompt_tokens  sources
--   2      2               400            [{source: hit, tokens: 240, of_tokens: 400, share_ratio: 0.6}, ...]
--
-- columns
--   turns BIGINT -- turns that the filters let through
--   complete_turns BIGINT -- of those, complete turns, which all sums are about
--   incomplete_turns BIGINT -- of those, turns left out of the sums
--   pages BIGINT -- pages that they fill, at least 1
--   prompt_tokens BIGINT -- sum of P [tokens]
--   seen_tokens BIGINT -- sum of S [tokens]
--   reused_tokens BIGINT -- hit or restored of what had been seen [tokens]
--   reuse_ratio DOUBLE -- reused_tokens / seen_tokens
--   median_ttft_seconds DOUBLE -- median time to first token [s]
--   sources STRUCT[] -- source, tokens, of_tokens and share_ratio: prompt tokens by source
create or replace macro turn_totals(
  the_engine, the_run, since, until, the_verdict, the_cause, rows_each,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with sums as (
  select
    count(*) as turns,
    count(*) filter (complete) as complete_turns,
    count(*) filter (not complete) as incomplete_turns,
    (sum(prompt_tokens) filter (complete))::bigint as prompt_tokens,
    (sum(seen_tokens) filter (complete))::bigint as seen_tokens,
    -- A turn may restore what it had itself computed before a preemption: that had not been seen before, and is no reuse of it.
    (
      sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null)
    )::bigint as reused_tokens,
    (sum(hit_tokens) filter (complete))::bigint as hit,
    (sum(restored_tokens) filter (complete))::bigint as restored,
    (sum(recomputed_tokens) filter (complete))::bigint as recomputed,
    (sum(new_tokens) filter (complete))::bigint as new,
    (sum(computed_tokens) filter (complete and recomputed_tokens is null))::bigint as computed,
    median(ttft_seconds) filter (complete) as median_ttft_seconds
  from _filtered_turns(the_engine, the_run, since, until, the_verdict, the_cause, the_replica, the_model, the_tenant, the_conversation)
)
select
  turns,
  complete_turns,
  incomplete_turns,
  greatest(ceil(turns / rows_each)::bigint, 1) as pages,
  prompt_tokens,
  seen_tokens,
  reused_tokens,
  reused_tokens / nullif(seen_tokens, 0)::double as reuse_ratio,
  median_ttft_seconds,
  list_filter(
    list_transform(
      [('hit', hit), ('restored', restored), ('recomputed', recomputed), ('new', new), ('computed', computed)],
      lambda of: {
        'source': of[1],
        'tokens': of[2],
        'of_tokens': prompt_tokens,
        'share_ratio': of[2] / nullif(prompt_tokens, 0)::double
      }
    ),
    lambda of: of.tokens is not null
  ) as sources
from sums;
