-- One row a publish or an eviction on the device that is not settled (table _settled), numbered in order; and one row a key that was
-- there when its engine start was settled, with a number below zero. A reset begins a new epoch: nothing of the one before is there
-- any more.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   number BIGINT -- place in the order of all
--   epoch BIGINT -- number of the last reset up to here; 0 where there is none since it was settled
--   event VARCHAR -- publish, evict or reset; there of a key that was there
--   at_ns BIGINT -- when [ns]
--   sequence BIGINT -- order among events of one time
--   span_id VARCHAR -- the span that says so
--   keys VARCHAR[] -- the prefix keys
--   key_tokens BIGINT -- where a snapshot ends; null of blocks and evictions [tokens]
--   tokens_each BIGINT -- length of a block; of an eviction, what each key lost [tokens]
--   slots_each BIGINT -- slots that it takes
--   worth BIGINT -- tokens that a publish adds with each key
--   whole BOOLEAN -- a snapshot's publish
create or replace view _device_events as
-- Lists of keys are heavy: what is picked and put in order goes without them.
with events as (
  select
    s.rowid as place,
    s.resource_id,
    s.end_ns as at_ns,
    coalesce(s.sequence, 0) as sequence,
    s.span_id,
    case when s.name = 'snapshot.publish' then 'publish' when s.reason = 'reset' then 'reset' else 'evict' end as event
  from spans as s
  left join _settled as u on u.resource_id = s.resource_id
  where s.tier = 'device'
    and (s.name = 'snapshot.evict' or (s.name = 'snapshot.publish' and s.outcome = 'committed'))
    and s.end_ns > coalesce(u.upto_ns, 0)
    -- It follows, but for clocks that went back by more than a day: what is settled for all need not be joined.
    and s.end_ns > (
      select min(coalesce(known.upto_ns, r.recorder_started_ns - 86_400_000_000_000, 0))
      from resources as r
      left join _settled as known using (resource_id)
    )
),
numbered as (
  select place, resource_id, event, row_number() over (order by resource_id, at_ns, sequence, span_id) as number
  from events
),
resets as (
  select resource_id, number as epoch from numbered where event = 'reset'
),
in_epochs as (
  select n.place, n.number, coalesce(r.epoch, 0) as epoch
  from numbered as n
  asof left join resets as r on r.resource_id = n.resource_id and n.number >= r.epoch
),
told as (
  select
    e.resource_id,
    n.number,
    n.epoch,
    e.event,
    e.at_ns,
    e.sequence,
    e.span_id,
    case when len(s.keys) > 0 then s.keys else [s.key] end as keys,
    s.key,
    s.parent_key,
    s.key_tokens,
    s.tokens_each,
    s.slots
  from in_epochs as n
  join events as e using (place)
  join spans as s on s.rowid = n.place
),
-- A parent counts once it is published.
ends as (
  -- Only those that are looked for: an asof join would sort all.
  select resource_id, key, 0 as number, end_tokens from _snapshot_ends where key in (select parent_key from told)
  union all
  select resource_id, key, number, key_tokens
  from told
  where event = 'publish' and tokens_each is null and key is not null and key_tokens is not null
)
select
  t.resource_id,
  t.number,
  t.epoch,
  t.event,
  t.at_ns,
  t.sequence,
  t.span_id,
  t.keys,
  case when t.event = 'publish' and t.tokens_each is null then t.key_tokens end as key_tokens,
  t.tokens_each,
  case when t.tokens_each is null then coalesce(t.slots, 1) else 0 end as slots_each,
  coalesce(t.tokens_each, t.key_tokens - coalesce(p.end_tokens, 0), 0) as worth,
  t.event = 'publish' and t.tokens_each is null as whole
from told as t
asof left join ends as p on p.resource_id = t.resource_id and p.key = t.parent_key and t.number >= p.number
union all
select resource_id, -1 - rowid, 0, 'there', null, null, null, [key], null, null, slots_each, worth, whole
from _residents;
