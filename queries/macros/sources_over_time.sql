-- Where prompt tokens came from over time: one row an interval of a range, of complete turns by their arrival; incomplete ones are
-- counted. The interval is the shortest of 1, 2, 5, 10, 15 and 30 seconds and minutes, 1, 2, 3, 6 and 12 hours, 1, 2 and 7 days,
-- or so many weeks, that makes no more than ``steps``. An interval without turns is a row without sums.
--
-- Example: turns at 10:00:10 and 10:00:50: from sources_over_time(null, null, null, null, 60)
--
--   begins_at            seconds  turns  prompt_tokens  hit_tokens
--   2026-09-21 10:00:10  1        1      100            0
--   ...
--
-- columns
--   begins_at TIMESTAMP_NS -- beginning of the interval, UTC
--   seconds DOUBLE -- its length [s]
--   turns BIGINT -- turns that arrived in it
--   incomplete_turns BIGINT -- of those, left out of the sums
--   prompt_tokens BIGINT -- [tokens]
--   hit_tokens BIGINT -- [tokens]
--   restored_tokens BIGINT -- [tokens]
--   recomputed_tokens BIGINT -- [tokens]
--   new_tokens BIGINT -- [tokens]
--   computed_tokens BIGINT -- of turns for which nobody knows what had been seen [tokens]
--   reuse_ratio DOUBLE -- hit or restored of what had been seen / seen tokens; null where nothing had been
--   median_ttft_seconds DOUBLE -- median time to first token [s]
--   p95_ttft_seconds DOUBLE -- one in twenty took longer [s]
--   begin_ns BIGINT -- beginning of the interval [ns]
create or replace macro sources_over_time(
  the_engine, the_run, since, until, steps,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with t as materialized (
  select
    start_ns, complete, prompt_tokens, hit_tokens, restored_tokens, recomputed_tokens, new_tokens, computed_tokens, seen_tokens, ttft_ns
  from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
),
width as (
  select
    coalesce(
      list_filter(
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800]::bigint[],
        lambda length: (last_ns // (length * 1_000_000_000)) - (first_ns // (length * 1_000_000_000)) < steps
      )[1],
      604800 * ((last_ns - first_ns) // 604_800_000_000_000 // greatest(steps - 1, 1) + 1)
    ) * 1_000_000_000 as step_ns,
    first_ns,
    last_ns
  from (select min(start_ns) as first_ns, max(start_ns) as last_ns from t)
  where first_ns is not null
),
intervals as (
  select unnest(generate_series(first_ns // step_ns, last_ns // step_ns)) as number, step_ns
  from width
),
sums as (
  select
    t.start_ns // w.step_ns as number,
    count(*) as turns,
    count(*) filter (not complete) as incomplete_turns,
    (sum(prompt_tokens) filter (complete))::bigint as prompt_tokens,
    (sum(hit_tokens) filter (complete))::bigint as hit_tokens,
    (sum(restored_tokens) filter (complete))::bigint as restored_tokens,
    (sum(recomputed_tokens) filter (complete))::bigint as recomputed_tokens,
    (sum(new_tokens) filter (complete))::bigint as new_tokens,
    (sum(computed_tokens) filter (complete and recomputed_tokens is null))::bigint as computed_tokens,
    sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null)
      / nullif(sum(seen_tokens) filter (complete), 0)::double
      as reuse_ratio,
    quantile_cont(ttft_ns / 1e9, [0.5, 0.95]) filter (complete) as ttft
  from t
  cross join width as w
  group by 1
)
select
  make_timestamp_ns(i.number * i.step_ns) as begins_at,
  i.step_ns / 1e9 as seconds,
  coalesce(s.turns, 0) as turns,
  coalesce(s.incomplete_turns, 0) as incomplete_turns,
  s.prompt_tokens,
  s.hit_tokens,
  s.restored_tokens,
  s.recomputed_tokens,
  s.new_tokens,
  s.computed_tokens,
  s.reuse_ratio,
  s.ttft[1] as median_ttft_seconds,
  s.ttft[2] as p95_ttft_seconds,
  i.number * i.step_ns as begin_ns
from intervals as i
left join sums as s using (number)
order by i.number;
