-- The lengths of time that the dashboard offers, each with how many turns arrived in it up to the last one. A turn of a clock that is
-- more than a day ahead does not count as the last.
--
-- Example: from time_choices()
--
-- columns
--   length VARCHAR -- 15m, 1h, 6h, 24h, 7d or all
--   turns BIGINT -- turns that arrived in it
--   place INTEGER -- from the shortest on, from 1
--   end_ns BIGINT -- arrival of the last turn; null where there is none [ns]
create or replace macro time_choices() as table
with last as (
  select
    coalesce(
      max(start_ns) filter (start_ns <= epoch_ns(now()) + 86_400_000_000_000),
      max(start_ns)
    ) as end_ns
  from _turn_facts
),
counts as (
  select
    count(*) filter (last.end_ns - start_ns <= 900_000_000_000) as quarter,
    count(*) filter (last.end_ns - start_ns <= 3_600_000_000_000) as hour,
    count(*) filter (last.end_ns - start_ns <= 21_600_000_000_000) as hours,
    count(*) filter (last.end_ns - start_ns <= 86_400_000_000_000) as day,
    count(*) filter (last.end_ns - start_ns <= 604_800_000_000_000) as week,
    count(*) as every
  from _turn_facts
  cross join last
)
select lengths.*, last.end_ns
from (
  select unnest([
    {'length': '15m', 'turns': quarter, 'place': 1},
    {'length': '1h', 'turns': hour, 'place': 2},
    {'length': '6h', 'turns': hours, 'place': 3},
    {'length': '24h', 'turns': day, 'place': 4},
    {'length': '7d', 'turns': week, 'place': 5},
    {'length': 'all', 'turns': every, 'place': 6}
  ], recursive := true)
  from counts
) as lengths
cross join last
order by lengths.place;
