-- The lengths of time that the dashboard offers, each with how many turns arrived in it up to the last one.
--
-- Example: from time_choices()
--
-- columns
--   length VARCHAR -- 15m, 1h, 6h, 24h, 7d or all
--   turns BIGINT -- turns that arrived in it
--   place INTEGER -- from the shortest on, from 1
create or replace macro time_choices() as table
with t as (
  select (select max(start_ns) from _turn_facts) - start_ns as ago_ns from _turn_facts
),
counts as (
  select
    count(*) filter (ago_ns <= 900_000_000_000) as quarter,
    count(*) filter (ago_ns <= 3_600_000_000_000) as hour,
    count(*) filter (ago_ns <= 21_600_000_000_000) as hours,
    count(*) filter (ago_ns <= 86_400_000_000_000) as day,
    count(*) filter (ago_ns <= 604_800_000_000_000) as week,
    count(*) as every
  from t
)
select unnest([
  {'length': '15m', 'turns': quarter, 'place': 1},
  {'length': '1h', 'turns': hour, 'place': 2},
  {'length': '6h', 'turns': hours, 'place': 3},
  {'length': '24h', 'turns': day, 'place': 4},
  {'length': '7d', 'turns': week, 'place': 5},
  {'length': 'all', 'turns': every, 'place': 6}
], recursive := true)
from counts;
