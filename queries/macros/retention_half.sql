-- Where half of the reuse is gone: one row, the first step of macro retention_curve whose re-asks find less than half of what they
-- ask for again. All null where there is none.
--
-- Example: from retention_half('ring0', null, null, null, 'publishes')
--
-- columns
--   gone_from BIGINT -- the step begins here
--   gone_least DOUBLE -- the least that passed in one of its re-asks
--   kept_most DOUBLE -- the most that passed in one of the steps before it, which kept at least half; null where there is none
--   reuse_ratio DOUBLE -- reuse of that step, of sums
--   kept_again_from BIGINT -- a later step that kept at least half, the last of them: not this traffic decides; null where none
create or replace macro retention_half(the_engine, the_run, since, until, axis, the_start := null) as table
with curve as (
  from retention_curve(the_engine, the_run, since, until, axis, the_start)
),
gone as (
  select min(passed_from) as gone_from from curve where reuse_ratio < 0.5
)
select
  g.gone_from,
  min(c.passed_least) filter (c.passed_from = g.gone_from) as gone_least,
  max(c.passed_most) filter (c.passed_from < g.gone_from) as kept_most,
  min(c.reuse_ratio) filter (c.passed_from = g.gone_from) as reuse_ratio,
  max(c.passed_from) filter (c.passed_from > g.gone_from and c.reuse_ratio >= 0.5) as kept_again_from
from gone as g
left join curve as c on true
group by g.gone_from;
