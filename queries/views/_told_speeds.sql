-- One row an engine start: how many seconds a token takes it, computed and restored, over its complete turns: the median (of _speeds),
-- and the slope fitted by least squares (of _speed_sums). Table _speed_facts keeps it up to date.
--
-- Example: of three turns with 0.9, 1.0 and 50 ms a token the middle one counts; three of 1,000, 2,000 and 3,000 tokens that took 1.5,
-- 2.0 and 2.5 s have a slope of 0.5 ms a token.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   computing_turns BIGINT -- complete turns that computed 1,024 tokens and more
--   computed_seconds_each DOUBLE -- of these, the median to within half a percent [s/token]
--   restoring_turns BIGINT -- complete turns that restored 1,024 tokens and more
--   restored_seconds_each DOUBLE -- of these, the median to within half a percent [s/token]
--   prefill_turns BIGINT -- complete turns that computed anything
--   prefill_seconds_per_token DOUBLE -- fitted slope of their time to the first token without frontend, queue and restores; null where there is none above 0 [s/token]
--   prefill_error_ratio DOUBLE -- standard error of the slope over the slope
--   restore_turns BIGINT -- complete turns that restored anything
--   restore_seconds_per_token DOUBLE -- fitted slope of their time under restores; null where there is none above 0 [s/token]
--   restore_error_ratio DOUBLE -- standard error of the slope over the slope
create or replace view _told_speeds as
with counted as (
  select
    resource_id,
    kind,
    step,
    sum(turns) over (partition by resource_id, kind)::bigint as turns,
    sum(turns) over (partition by resource_id, kind order by step) as upto
  from _speeds
),
middle as (
  select resource_id, kind, turns, exp(step / 100.0) / 1e9 as seconds_each
  from counted
  where 2 * upto >= turns
  qualify row_number() over (partition by resource_id, kind order by step) = 1
),
usual as (
  select
    resource_id,
    coalesce(max(turns) filter (kind = 'computed'), 0) as computing_turns,
    max(seconds_each) filter (kind = 'computed') as computed_seconds_each,
    coalesce(max(turns) filter (kind = 'restored'), 0) as restoring_turns,
    max(seconds_each) filter (kind = 'restored') as restored_seconds_each
  from middle
  group by resource_id
),
fitted as (
  select
    resource_id,
    kind,
    turns,
    (turns * tokens_tokens - tokens * tokens)::double as sxx,
    (turns * tokens_us - tokens * us)::double / 1e6 as sxy,
    (turns * us_us - us * us)::double / 1e12 as syy,
    case when turns >= 3 and sxx > 0 and sxy > 0 then sxy / sxx end as slope,
    sqrt(greatest(syy - slope * sxy, 0) / nullif(turns - 2, 0) / sxx) / slope as error_ratio
  from _speed_sums
),
rates as (
  select
    resource_id,
    coalesce(max(turns) filter (kind = 'computed'), 0) as prefill_turns,
    max(slope) filter (kind = 'computed') as prefill_seconds_per_token,
    max(error_ratio) filter (kind = 'computed') as prefill_error_ratio,
    coalesce(max(turns) filter (kind = 'restored'), 0) as restore_turns,
    max(slope) filter (kind = 'restored') as restore_seconds_per_token,
    max(error_ratio) filter (kind = 'restored') as restore_error_ratio
  from fitted
  group by resource_id
)
select
  resource_id,
  coalesce(u.computing_turns, 0) as computing_turns,
  u.computed_seconds_each,
  coalesce(u.restoring_turns, 0) as restoring_turns,
  u.restored_seconds_each,
  r.prefill_turns,
  r.prefill_seconds_per_token,
  r.prefill_error_ratio,
  r.restore_turns,
  r.restore_seconds_per_token,
  r.restore_error_ratio
from rates as r
left join usual as u using (resource_id);
