-- One row a key and a row of _device_events about it, with the one of the same key before it in its epoch.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   epoch BIGINT -- as there
--   key VARCHAR -- the prefix key
--   number BIGINT -- of the row there
--   before BIGINT -- of the one before it; null of the first
--   is_last BOOLEAN -- there is none after it
create or replace view _device_keys as
select
  resource_id,
  epoch,
  key,
  number,
  lag(number) over life as before,
  lead(number) over life is null as is_last
from (select resource_id, epoch, number, unnest(keys) as key from _device_events)
window life as (partition by resource_id, epoch, key order by number);
