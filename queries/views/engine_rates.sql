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
select
  resource_id,
  prefill_turns,
  prefill_seconds_per_token,
  prefill_error_ratio,
  1 / prefill_seconds_per_token as prefill_tokens_per_second,
  restore_turns,
  restore_seconds_per_token,
  restore_error_ratio,
  1 / restore_seconds_per_token as restore_tokens_per_second
from _speed_facts;
