-- How far back a replay that ends at a time must begin to hold at most so many publishes and turns of an engine start: when that
-- is, how many there are, and whether there are older ones.
--
-- Example: from reference_window('5f0c3d', 9_000_000_000_000_000_000, 5_000)
--
-- columns
--   since_ns BIGINT -- end of the oldest of them; null where there is none [ns]
--   events BIGINT -- how many there are
--   whole BOOLEAN -- nothing was left out before them
create or replace macro reference_window(resource, until, most) as table
with latest as (
  select end_ns, row_number() over (order by end_ns desc) as number
  from spans
  where resource_id = resource and end_ns < until and name in ('turn', 'snapshot.publish')
)
select
  min(end_ns) filter (number <= most) as since_ns,
  count(*) filter (number <= most) as events,
  coalesce(bool_and(number <= most), true) as whole
from latest;
