-- Slots and KV tokens of every engine start of a range over time, by what was said to be free and by what the events leave there,
-- one row an interval; and which of the two was short. Null for ``interval_seconds`` makes 20 intervals of each engine start.
--
-- ``bound`` is the first that applies. A sample is a gauge's, an admission's or an eviction's; one is slot-full where no slot was
-- free while more than half of the pool was.
--   slot-bound    at least half of the interval's samples that say both are slot-full
--   memory-bound  something was evicted for memory, or less than 5 % of the pool was free in a sample
--   neither       samples say so; unknown: there is none, or none that can tell
-- What was said to be free counts where the two disagree. Taken tokens include those that running requests hold, which no event
-- shows: a positive difference of tokens is theirs first, a negative one an eviction that was not recorded.
--
-- Example: 4 slots, all taken, 90 of 1,000 tokens used, one eviction: from occupancy_in('ring0', null, null, null, 60)
--
--   total_slots  taken_slots  event_slots  pool_tokens  taken_tokens  event_tokens  evictions  bound
--   4            4            4            1000         90            80            1          slot-bound
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range
--   begins_at TIMESTAMP_NS -- beginning of the interval, UTC
--   seconds DOUBLE -- its length [s]
--   total_slots BIGINT -- snapshot slots; null for an engine of blocks
--   taken_slots BIGINT -- total less free at the last sample of the interval, a gauge's where there is one
--   event_slots BIGINT -- by the events, at the end of the interval
--   difference_slots BIGINT -- taken less what the events left at the same moment
--   pool_tokens BIGINT -- KV tokens that fit
--   taken_tokens BIGINT -- pool less free at the last sample of the interval [tokens]
--   event_tokens BIGINT -- by the events, at the end of the interval [tokens]
--   difference_tokens BIGINT -- taken less what the events left at the same moment [tokens]
--   basis VARCHAR -- gauge or span: who said what was taken; null where nobody
--   samples BIGINT -- samples that say both, slots and tokens
--   slot_full_samples BIGINT -- those with no slot free and more than half of the pool
--   most_slots BIGINT -- slots taken, of all samples
--   least_free_tokens BIGINT -- of all samples [tokens]
--   evictions BIGINT -- evictions from the device
--   memory_evictions BIGINT -- those for memory
--   slot_evictions BIGINT -- those for slots
--   bound VARCHAR -- slot-bound, memory-bound, neither or unknown
--   resource_id VARCHAR -- the engine start
--   begin_ns BIGINT -- beginning of the interval [ns]
create or replace macro occupancy_in(the_engine, the_run, since, until, interval_seconds) as table
with intervals as (
  from _intervals_in(the_engine, the_run, since, until, interval_seconds)
),
said as (
  from _interval_samples_in(the_engine, the_run, since, until, interval_seconds)
),
-- What the events left at the end of each interval, and at its last sample. That is taken before what happens at its own moment: an
-- eviction is explained by what was full.
numbered as (
  select c.* exclude (number), c.number as place, greatest(floor((c.at_ns - w.from_ns) / w.step_ns), -1)::bigint as number
  from _device_changes_in(the_engine, the_run, since, until) as c
  join intervals as w on w.resource_id = c.resource_id and w.number = -1
),
left_there as (
  select
    n.resource_id,
    n.number,
    max_by(n.slots, n.place) as end_slots,
    max_by(n.tokens, n.place) as end_tokens,
    max_by(n.slots, n.place) filter (n.at_ns < s.last_slots[2] or n.at_ns = s.last_slots[2] and n.sequence < s.last_slots[3])
      as sample_slots,
    max_by(n.tokens, n.place) filter (n.at_ns < s.last_tokens[2] or n.at_ns = s.last_tokens[2] and n.sequence < s.last_tokens[3])
      as sample_tokens
  from numbered as n
  left join said as s using (resource_id, number)
  group by all
),
sums as (
  select
    i.resource_id,
    i.number,
    s.* exclude (resource_id, number, last_slots, last_tokens),
    s.last_slots[4] as taken_slots,
    s.last_tokens[4] as taken_tokens,
    coalesce(last_value(l.end_slots ignore nulls) over so_far, nothing) as event_slots,
    coalesce(last_value(l.end_tokens ignore nulls) over so_far, nothing) as event_tokens,
    s.last_slots[4] - coalesce(l.sample_slots, last_value(l.end_slots ignore nulls) over earlier, nothing) as difference_slots,
    s.last_tokens[4] - coalesce(l.sample_tokens, last_value(l.end_tokens ignore nulls) over earlier, nothing) as difference_tokens
  from (
    -- Of an engine start of which no publish is known, the events say nothing, not even that there was nothing.
    select resource_id, number, case when resource_id in (select resource_id from left_there) then 0 end as nothing from intervals
  ) as i
  left join said as s on s.resource_id = i.resource_id and s.number = i.number
  left join left_there as l on l.resource_id = i.resource_id and l.number = i.number
  window
    so_far as (partition by i.resource_id order by i.number rows unbounded preceding),
    earlier as (partition by i.resource_id order by i.number rows between unbounded preceding and 1 preceding)
)
select
  i.engine,
  i.replica,
  i.runs,
  make_timestamp_ns(i.begin_ns) as begins_at,
  least(i.step_ns, i.until_ns - i.begin_ns) / 1e9 as seconds,
  i.total_slots,
  s.taken_slots,
  case when i.total_slots is not null then s.event_slots end as event_slots,
  case when i.total_slots is not null then s.difference_slots end as difference_slots,
  i.pool_tokens,
  s.taken_tokens,
  s.event_tokens,
  s.difference_tokens,
  s.basis,
  coalesce(s.samples, 0) as samples,
  coalesce(s.slot_full_samples, 0) as slot_full_samples,
  s.most_slots,
  s.least_free_tokens,
  coalesce(s.evictions, 0) as evictions,
  coalesce(s.memory_evictions, 0) as memory_evictions,
  coalesce(s.slot_evictions, 0) as slot_evictions,
  case
    when s.slot_full_samples > 0 and s.slot_full_samples * 2 >= s.samples then 'slot-bound'
    when s.memory_evictions > 0 or s.least_free_tokens < i.pool_tokens * 0.05 then 'memory-bound'
    when s.least_free_tokens is not null and (s.samples > 0 or i.total_slots is null) then 'neither'
    else 'unknown'
  end as bound,
  i.resource_id,
  i.begin_ns
from intervals as i
join sums as s using (resource_id, number)
where i.number >= 0
order by i.from_ns, i.resource_id, i.number;
