-- One row a source of prompt tokens, over the complete turns that the filters let through; the rows add up to their prompts.
-- ``computed`` are tokens of turns for which nobody knows what had been seen: they may be recomputed or new.
--
-- Example: two complete turns of 100 and 300 tokens, of which 240 were hits:
--
--   source      tokens  of_tokens  share_ratio
--   hit         240     400        0.6
create or replace macro source_totals(the_conversation, the_verdict, the_engine, the_cause) as table
with sums as (
  select
    sum(hit_tokens)::bigint as hit,
    sum(restored_tokens)::bigint as restored,
    sum(recomputed_tokens)::bigint as recomputed,
    sum(new_tokens)::bigint as new,
    (sum(computed_tokens) filter (recomputed_tokens is null))::bigint as computed,
    sum(unobserved_tokens)::bigint as unobserved,
    sum(prompt_tokens)::bigint as of_tokens
  from _filtered_turns(the_conversation, the_verdict, the_engine, the_cause)
  where complete
)
select source, tokens, of_tokens, tokens / nullif(of_tokens, 0)::double as share_ratio
from sums
unpivot (tokens for source in (hit, restored, recomputed, new, computed, unobserved));
