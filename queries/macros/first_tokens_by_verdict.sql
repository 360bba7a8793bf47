-- The time to the first token of the turns of a range by their verdict: half of them took less than the median, one in ten more than
-- p90. Turns of which it is not known are left out.
--
-- Example: from first_tokens_by_verdict(null, null, null, null)
--
-- columns
--   verdict VARCHAR -- as in view turns
--   turns BIGINT -- turns with it that had a first token
--   p10_seconds DOUBLE -- [s]
--   p25_seconds DOUBLE -- [s]
--   median_seconds DOUBLE -- [s]
--   p75_seconds DOUBLE -- [s]
--   p90_seconds DOUBLE -- [s]
--   p99_seconds DOUBLE -- [s]
--   longest_seconds DOUBLE -- [s]
create or replace macro first_tokens_by_verdict(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select
  verdict,
  turns,
  quantiles[1] as p10_seconds,
  quantiles[2] as p25_seconds,
  quantiles[3] as median_seconds,
  quantiles[4] as p75_seconds,
  quantiles[5] as p90_seconds,
  quantiles[6] as p99_seconds,
  quantiles[7] as longest_seconds
from (
  select verdict, count(*) as turns, quantile_cont(ttft_ns / 1e9, [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1]) as quantiles
  from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
  where ttft_ns is not null
  group by verdict
)
order by list_position(['hit', 'restored', 'recomputed', 'cold', 'contradictory', 'incomplete'], verdict);
