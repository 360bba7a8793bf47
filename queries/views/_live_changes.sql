-- What macro _device_changes_in shows, as far as it is not settled (table _settled).
--
-- columns
--   resource_id VARCHAR -- the engine start
--   number BIGINT -- place in the order of all changes of the engine start, settled or not, from 1
--   at_ns BIGINT -- when [ns]
--   sequence BIGINT -- order among events of one time
--   span_id VARCHAR -- the span that says so
--   event VARCHAR -- publish, evict or reset
--   slots BIGINT -- slots taken afterwards
--   tokens BIGINT -- tokens that can be reused afterwards
create or replace view _live_changes as
with keys as (
  from _device_keys
),
events as (
  from _device_events
),
changes as (
  select
    e.number,
    sum(case e.event when 'publish' then e.slots_each when 'evict' then -b.slots_each else 0 end) as slots_change,
    sum(
      case e.event
        when 'publish' then e.worth
        when 'evict' then -coalesce(e.tokens_each, case when b.whole then 0 else b.worth end)
        else 0
      end
    ) as tokens_change
  from keys as k
  join events as e on e.number = k.number
  left join events as b on b.number = k.before
  where e.event = 'reset'
    or (e.event <> 'there' and (e.event = 'publish') is distinct from (coalesce(b.event, 'evict') in ('publish', 'there')))
  group by all
)
select
  e.resource_id,
  coalesce(u.changes, 0) + row_number() over (partition by e.resource_id order by e.number) as number,
  e.at_ns,
  e.sequence,
  e.span_id,
  e.event,
  (case when e.epoch = 0 then coalesce(u.slots, 0) else 0 end + sum(c.slots_change) over so_far)::bigint as slots,
  (case when e.epoch = 0 then coalesce(u.tokens, 0) else 0 end + sum(c.tokens_change) over so_far)::bigint as tokens
from changes as c
join events as e using (number)
left join _settled as u on u.resource_id = e.resource_id
window so_far as (partition by e.resource_id, e.epoch order by e.number rows unbounded preceding);
