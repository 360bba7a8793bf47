-- Every moment of a range's windows at which something changed on the device or somebody said what was free, in order, with what
-- the events say was there then. A sample is taken before what happens at its own moment: an eviction is explained by what was
-- full.
--
-- Example: from _occupancy_points_in('ring0', null, null, null)
--
-- columns
--   resource_id VARCHAR -- the engine start
--   at_ns BIGINT -- when [ns]; changes from before the window are there, too
--   place BIGINT -- order within the engine start
--   basis VARCHAR -- gauge, span or (a change) event
--   free_slots BIGINT -- free snapshot slots; null where not said
--   free_tokens BIGINT -- free KV tokens; null where not said
--   evicted_for VARCHAR -- reason, where a sample is an eviction's
--   event_slots BIGINT -- slots taken by then, by the events; null where they show no publish at all
--   event_tokens BIGINT -- tokens that could be reused by then, by the events; null where they show no publish at all
create or replace macro _occupancy_points_in(the_engine, the_run, since, until) as table
with points as (
  select resource_id, at_ns, sequence, basis, free_slots, free_tokens, evicted_for, null::bigint as slots, null::bigint as tokens, span_id
  from (select *, '' as span_id from _free_samples_in(the_engine, the_run, since, until))
  union all
  select resource_id, at_ns, sequence, 'event', null, null, null, slots, tokens, span_id
  from _device_changes_in(the_engine, the_run, since, until)
),
ordered as (
  select *, row_number() over (partition by resource_id order by at_ns, sequence, basis = 'event', span_id) as place
  from points
),
carried as (
  select
    *,
    bool_or(basis = 'event') over (partition by resource_id) as recorded,
    last_value(slots ignore nulls) over (partition by resource_id order by place rows unbounded preceding) as last_slots,
    last_value(tokens ignore nulls) over (partition by resource_id order by place rows unbounded preceding) as last_tokens
  from ordered
)
select
  resource_id,
  at_ns,
  place,
  basis,
  free_slots,
  free_tokens,
  evicted_for,
  case when recorded then coalesce(last_slots, 0) end as event_slots,
  case when recorded then coalesce(last_tokens, 0) end as event_tokens
from carried;
