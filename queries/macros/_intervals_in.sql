-- The windows of a range cut into intervals of equal length, the last of each as short as it comes out. Null for
-- ``interval_seconds`` makes 20 of each engine start, in whole seconds. Number -1 stands for all that came before the window.
--
-- Example: from _intervals_in('ring0', null, null, null, 60)
--
-- columns are those of _windows_in, and
--   step_ns BIGINT -- length of an interval [ns]
--   number BIGINT -- which interval, from 0
--   begin_ns BIGINT -- its beginning; of number -1 without meaning [ns]
create or replace macro _intervals_in(the_engine, the_run, since, until, interval_seconds) as table
with asked as (
  select *, coalesce(interval_seconds, greatest(ceil((until_ns - from_ns) / 20e9), 1)) * 1e9 as asked_ns
  from _windows_in(the_engine, the_run, since, until)
),
windows as (
  select
    * exclude (asked_ns),
    case
      when asked_ns >= 1 and (until_ns - from_ns) / asked_ns <= 10_000 then asked_ns::bigint
      else error('Intervals of ' || interval_seconds || ' s are too short for this range: at most 10,000 can be made.')
    end as step_ns
  from asked
),
numbered as (
  select *, unnest(range(-1, ceil((until_ns - from_ns) / step_ns)::bigint)) as number
  from windows
)
select *, from_ns + number * step_ns as begin_ns
from numbered;
