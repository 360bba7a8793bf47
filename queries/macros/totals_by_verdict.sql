-- Turns, tokens by source and time to first token by verdict, over the whole store.
--
-- Example: from totals_by_verdict()
--
-- columns
--   verdict VARCHAR -- as in view turns
--   turns BIGINT -- turns with it
--   prompt HUGEINT -- their prompts [tokens]
--   hit HUGEINT -- KV was on the device [tokens]
--   restored HUGEINT -- KV came from another tier [tokens]
--   recomputed HUGEINT -- computed although seen before [tokens]
--   new HUGEINT -- computed, not seen before [tokens]
--   unobserved HUGEINT -- the events do not say [tokens]
--   median_ttft_s DOUBLE -- median time to first token, to the millisecond [s]
create or replace macro totals_by_verdict() as table
select
  verdict,
  count(*) as turns,
  sum(prompt_tokens) as prompt,
  sum(hit_tokens) as hit,
  sum(restored_tokens) as restored,
  sum(recomputed_tokens) as recomputed,
  sum(new_tokens) as new,
  sum(unobserved_tokens) as unobserved,
  round(median(ttft_seconds), 3) as median_ttft_s
from turns
group by verdict
order by turns desc, verdict;
