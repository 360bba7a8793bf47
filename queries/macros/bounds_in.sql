-- One row an engine start of a range: in how many intervals slots were what was short, memory, or neither (the rule stands at
-- macro occupancy_in), how full both were at most, and how far what was said to be free and the events went apart.
--
-- Example: from bounds_in('ring0', null, null, null, 60)
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range
--   intervals BIGINT -- how many there are
--   interval_seconds DOUBLE -- length of each; the last may be shorter [s]
--   slot_bound_intervals BIGINT -- slots were full, and less than half of the memory in use
--   memory_bound_intervals BIGINT -- memory was full
--   neither_intervals BIGINT -- neither was
--   unknown_intervals BIGINT -- nothing says
--   last_bound VARCHAR -- of the last interval of which something is known
--   total_slots BIGINT -- snapshot slots; null for an engine of blocks
--   most_taken_slots BIGINT -- of all samples
--   pool_tokens BIGINT -- KV tokens that fit
--   least_free_tokens BIGINT -- of all samples [tokens]
--   compared_intervals BIGINT -- intervals in which a sample and the events can be compared
--   differing_slots_intervals BIGINT -- those in which they differ in slots
--   widest_slots_difference BIGINT -- the widest difference, with its sign: taken by the samples less taken by the events
--   missing_tokens_intervals BIGINT -- those in which the samples know of fewer tokens than the events: evictions went unrecorded
--   widest_missing_tokens BIGINT -- how many fewer at most [tokens]
--   most_running_tokens BIGINT -- how many more at most: running requests hold them, and no event shows them [tokens]
--   limited_by VARCHAR -- what kept it from having more, where its log says so: memory or concurrency
--   told_by VARCHAR -- who says how much it has: engine, log, or gauges
--   gauges_only BOOLEAN -- nothing but gauges is known of it; where told_by is gauges, totals are what was free and taken at most
--   basis VARCHAR -- gauge or span: who said what was free, of the intervals' last samples; with commas where both did
--   resource_id VARCHAR -- the engine start
--   from_ns BIGINT -- beginning of the first interval [ns]
create or replace macro bounds_in(the_engine, the_run, since, until, interval_seconds) as table
select
  engine,
  replica,
  runs,
  count(*) as intervals,
  max(seconds) as interval_seconds,
  count(*) filter (bound = 'slot-bound') as slot_bound_intervals,
  count(*) filter (bound = 'memory-bound') as memory_bound_intervals,
  count(*) filter (bound = 'neither') as neither_intervals,
  count(*) filter (bound = 'unknown') as unknown_intervals,
  max_by(bound, begin_ns) filter (bound <> 'unknown') as last_bound,
  any_value(total_slots) as total_slots,
  max(most_slots) as most_taken_slots,
  any_value(pool_tokens) as pool_tokens,
  min(least_free_tokens) as least_free_tokens,
  count(*) filter (difference_slots is not null or difference_tokens is not null) as compared_intervals,
  count(*) filter (difference_slots <> 0) as differing_slots_intervals,
  max_by(difference_slots, abs(difference_slots)) as widest_slots_difference,
  count(*) filter (difference_tokens < 0) as missing_tokens_intervals,
  -min(difference_tokens) filter (difference_tokens < 0) as widest_missing_tokens,
  max(difference_tokens) filter (difference_tokens > 0) as most_running_tokens,
  any_value(limited_by) as limited_by,
  any_value(told_by) as told_by,
  resource_id not in (select resource_id from _covered) as gauges_only,
  string_agg(distinct basis, ', ' order by basis) as basis,
  resource_id,
  min(begin_ns) as from_ns
from occupancy_in(the_engine, the_run, since, until, interval_seconds)
left join (select resource_id, limited_by, told_by from _windows_in(the_engine, the_run, since, until)) using (resource_id)
group by engine, replica, runs, resource_id
order by from_ns, resource_id;
