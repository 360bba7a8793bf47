-- What the events say was on the device of the engine starts of a range: one row a publish or an eviction that changed it, and the
-- last one before the range, which stands for all before it; numbered in order from the first event of the start on. A key that is
-- published again while it is there counts once, an eviction of a key that is not there counts nothing, a reset leaves nothing.
--
-- Tokens: a block is worth its length. A snapshot is worth what lies past its parent, and loses what its eviction says: nothing
-- where it was compacted, for its child holds the tokens then. What a snapshot that was compacted and is published again adds
-- may be held already, so the sum can come out too high, and is a check on the gauges and no replacement for them.
--
-- Example: two snapshots of 100 and 250 tokens in a chain, then the first compacted, then the second evicted:
-- from _device_changes_in('ring0', null, null, null)
--
--   event    slots  tokens
--   publish  1      100
--   publish  2      250
--   evict    1      250
--   evict    0      0
--
-- columns
--   resource_id VARCHAR -- the engine start
--   number BIGINT -- place in the order of its changes, from 1
--   at_ns BIGINT -- when [ns]
--   sequence BIGINT -- order among events of one time
--   span_id VARCHAR -- the span that says so
--   event VARCHAR -- publish, evict or reset
--   slots BIGINT -- slots taken afterwards
--   tokens BIGINT -- tokens that can be reused afterwards
create or replace macro _device_changes_in(the_engine, the_run, since, until) as table
with live as materialized (
  from _live_changes
),
-- The settled ones are many, and are not put together with the others before they are few.
before as (
  select resource_id, max(number) as number
  from (
    select resource_id, number, at_ns from _device_changes
    union all
    select resource_id, number, at_ns from live
  ) as numbers
  where since is not null and at_ns < since
  group by resource_id
),
needed as (
  from _device_changes
  where (since is null or at_ns >= since) and (until is null or at_ns < until)
  union all by name
  from live
  where (since is null or at_ns >= since) and (until is null or at_ns < until)
  union all by name
  select c.*
  from _device_changes as c
  join before as b on b.resource_id = c.resource_id and b.number = c.number
  union all by name
  select c.*
  from live as c
  join before as b on b.resource_id = c.resource_id and b.number = c.number
)
select n.*
from needed as n
join _windows_in(the_engine, the_run, since, until) as w on w.resource_id = n.resource_id and n.at_ns < w.until_ns;
