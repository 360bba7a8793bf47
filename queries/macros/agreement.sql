-- Do the engine's own counters agree with the events? One row an interval and a counter that was sampled in it (vllm:*, from Prometheus
-- over OTLP) or recorded with the turns (usage:*). An interval goes from sample to sample, and what the events say is summed over
-- exactly that time. Where the two differ by just what one of vLLM's known differences makes of the turns in it, the row names it:
--
--   failed_asynchronous_restore   an asynchronous load failed and stays counted as promised, or its lookup was counted again
--   failed_synchronous_restore    the same of a load within a step
--   preempted_in_prefill          counted as if nothing had happened; what was computed again is not
--   full_hit_with_external_tail   the last token was computed, and is counted as loaded
--   cancelled_restore             the client left during a load, which is counted as a hit
--
-- and besides these preempted_in_decode (the prompt was computed again), counter_reset (counted before a restart and not sampled),
-- between_samples (the neighbouring interval has what this one lacks) and unexplained. See docs/questions-health.md.
--
-- Example: from agreement(null, null, null, null, 60) where one restore of 352 tokens failed after 32:
--
--   counter                          counted  events  difference  explained_by
--   vllm:external_prefix_cache_hits      352      32         320  failed_asynchronous_restore
--
-- columns
--   interval_start TIMESTAMP_NS -- the sample before, UTC
--   interval_end TIMESTAMP_NS -- the last sample of the interval, UTC
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it; null where the counter is about all
--   counter VARCHAR -- its name without _total, and its source in braces where it has one
--   counted BIGINT -- what the engine counted [tokens or requests]
--   events BIGINT -- what the events say [tokens or requests]
--   difference BIGINT -- counted - events [tokens or requests]
--   explained_by VARCHAR -- what makes the difference; null where there is none
--   known_tokens BIGINT -- the difference that the known ones would make of these turns [tokens or requests]
--   known_turns VARCHAR[] -- up to five of the turns that they concern
--   differs_since TIMESTAMP_NS -- since when the sums since the beginning differ without a break, UTC; null where they agree here
--   turns BIGINT -- turns that were counted in the interval
--   unsure_turns BIGINT -- of those, turns of which the events do not know enough
--   resets BIGINT -- times that the counter began anew
--   to_ns BIGINT -- the last sample of the interval [ns]
create or replace macro agreement(the_engine, the_run, since, until, seconds) as table
with compared as (
  select
    *,
    counted - events as difference,
    case
      when known_tokens <> 0 and counted - events = known_tokens then true
      when self_recovered <> 0 and counted - events = known_tokens + self_recovered then true
      else false
    end as is_known,
    sum(counted - events) over so_far as sum_difference
  from (
    from _counter_sums(the_engine, the_run, since, until, seconds)
    union all by name
    from _usage_sums(the_engine, the_run, since, until, seconds)
  ) as sums
  window so_far as (partition by engine, replica, counter order by to_ns)
),
beside as (
  select
    *,
    difference - known_tokens as rest,
    lag(difference - known_tokens) over series as rest_before,
    lead(difference - known_tokens) over series as rest_after,
    coalesce(max(case when sum_difference = 0 then to_ns end) over series, min(from_ns) over series) as agreed_ns
  from compared
  window series as (partition by engine, replica, counter order by to_ns)
)
select
  make_timestamp_ns(from_ns) as interval_start,
  make_timestamp_ns(to_ns) as interval_end,
  engine,
  replica,
  counter,
  counted,
  events,
  difference,
  case
    when difference = 0 then null
    when is_known then array_to_string(known, ', ')
    when resets > 0 and rest < 0 then 'counter_reset'
    when rest <> 0 and (rest = -rest_before or rest = -rest_after) then 'between_samples'
    else 'unexplained'
  end as explained_by,
  known_tokens,
  case when difference <> 0 then known_turns[:5] end as known_turns,
  case when sum_difference <> 0 then make_timestamp_ns(agreed_ns) end as differs_since,
  turns,
  unsure_turns,
  resets,
  to_ns
from beside
order by to_ns, engine, replica, counter;
