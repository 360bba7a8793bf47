-- One row an engine start: how many tokens a second it computes and restores, fitted over its complete turns by least squares of
-- seconds on tokens (time to the first token without frontend, queue and restores; time under restores).
--
-- Example: three turns of 1,000, 2,000 and 3,000 computed tokens took 1.5, 2.0 and 2.5 s: 0.5 s a 1,000 tokens, and 1 s at none.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   prefill_turns BIGINT -- turns that computed anything
--   prefill_seconds_per_token DOUBLE -- slope; null where it could not be fitted or is not above 0 [s/token]
--   prefill_error_ratio DOUBLE -- standard error of the slope over the slope
--   prefill_tokens_per_second DOUBLE -- its inverse
--   restore_turns BIGINT -- turns that restored anything
--   restore_seconds_per_token DOUBLE -- slope; null where it could not be fitted or is not above 0 [s/token]
--   restore_error_ratio DOUBLE -- standard error of the slope over the slope
--   restore_tokens_per_second DOUBLE -- its inverse
create or replace view engine_rates as
with sums as (
  select
    resource_id,
    count(*) filter (computed_tokens > 0) as computed_n,
    regr_slope(compute_ns / 1e9, computed_tokens) filter (computed_tokens > 0) as computed_slope,
    regr_sxx(compute_ns / 1e9, computed_tokens) filter (computed_tokens > 0) as computed_sxx,
    regr_syy(compute_ns / 1e9, computed_tokens) filter (computed_tokens > 0) as computed_syy,
    count(*) filter (restored_tokens > 0) as restored_n,
    regr_slope(restore_ns / 1e9, restored_tokens) filter (restored_tokens > 0) as restored_slope,
    regr_sxx(restore_ns / 1e9, restored_tokens) filter (restored_tokens > 0) as restored_sxx,
    regr_syy(restore_ns / 1e9, restored_tokens) filter (restored_tokens > 0) as restored_syy
  from _turn_spans
  where complete and ttft_ns is not null and compute_ns is not null
  group by resource_id
)
select
  resource_id,
  computed_n as prefill_turns,
  case when computed_n >= 3 and computed_slope > 0 then computed_slope end as prefill_seconds_per_token,
  sqrt(greatest(computed_syy - computed_slope * computed_slope * computed_sxx, 0) / nullif(computed_n - 2, 0) / nullif(computed_sxx, 0))
    / nullif(prefill_seconds_per_token, 0) as prefill_error_ratio,
  1 / prefill_seconds_per_token as prefill_tokens_per_second,
  restored_n as restore_turns,
  case when restored_n >= 3 and restored_slope > 0 then restored_slope end as restore_seconds_per_token,
  sqrt(greatest(restored_syy - restored_slope * restored_slope * restored_sxx, 0) / nullif(restored_n - 2, 0) / nullif(restored_sxx, 0))
    / nullif(restore_seconds_per_token, 0) as restore_error_ratio,
  1 / restore_seconds_per_token as restore_tokens_per_second
from sums;
