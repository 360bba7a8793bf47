-- What the events say was on the device of the engine starts of a range: one row a publish or an eviction that changed it, from
-- the first event of the start on, in order. A key that is published again while it is there counts once, an eviction of a key
-- that is not there counts nothing, a reset leaves nothing.
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
--   at_ns BIGINT -- when [ns]
--   sequence BIGINT -- order among events of one time
--   span_id VARCHAR -- the span that says so
--   event VARCHAR -- publish, evict or reset
--   slots BIGINT -- slots taken afterwards
--   tokens BIGINT -- tokens that can be reused afterwards
create or replace macro _device_changes_in(the_engine, the_run, since, until) as table
with windows as (
  from _windows_in(the_engine, the_run, since, until)
),
events as (
  select
    s.resource_id,
    s.end_ns as at_ns,
    coalesce(s.sequence, 0) as sequence,
    s.span_id,
    case when s.name = 'snapshot.publish' then 'publish' when s.reason = 'reset' then 'reset' else 'evict' end as event,
    coalesce(s.keys, [s.key]) as keys,
    s.key,
    s.parent_key,
    s.key_tokens,
    s.tokens_each,
    case when s.tokens_each is null then coalesce(s.slots, 1) else 0 end as slots_each,
    count(*) filter (s.name = 'snapshot.evict' and s.reason = 'reset') over (
      partition by s.resource_id order by s.end_ns, s.sequence, s.span_id rows unbounded preceding
    ) as epoch
  from spans as s
  join windows as w using (resource_id)
  where s.tier = 'device'
    and s.end_ns < w.until_ns
    and (s.name = 'snapshot.evict' or (s.name = 'snapshot.publish' and s.outcome = 'committed'))
),
ends as (
  select resource_id, key, max(key_tokens) as end_tokens
  from events
  where event = 'publish'
  group by all
),
of_keys as (
  select
    e.* exclude (keys, key),
    unnest(e.keys) as key,
    e.tokens_each is null and e.event = 'publish' as whole,
    coalesce(e.tokens_each, e.key_tokens - coalesce(p.end_tokens, 0), 0) as worth
  from events as e
  left join ends as p on p.resource_id = e.resource_id and p.key = e.parent_key
),
with_state as (
  select *, lag(event) over life as before, lag(whole) over life as was_whole, lag(worth) over life as was_worth, lag(slots_each) over life as had_slots
  from of_keys
  window life as (partition by resource_id, epoch, key order by at_ns, sequence, span_id)
),
changes as (
  select
    resource_id,
    epoch,
    at_ns,
    sequence,
    span_id,
    event,
    sum(case event when 'publish' then slots_each when 'evict' then -had_slots else 0 end) as slots_change,
    sum(
      case event
        when 'publish' then worth
        when 'evict' then -coalesce(tokens_each, case when was_whole then 0 else was_worth end)
        else 0
      end
    ) as tokens_change
  from with_state
  where event = 'reset' or (event = 'publish') is distinct from (coalesce(before, 'evict') = 'publish')
  group by all
)
select
  resource_id,
  at_ns,
  sequence,
  span_id,
  event,
  (sum(slots_change) over so_far)::bigint as slots,
  (sum(tokens_change) over so_far)::bigint as tokens
from changes
window so_far as (partition by resource_id, epoch order by at_ns, sequence, span_id rows unbounded preceding)
order by resource_id, at_ns, sequence, span_id;
