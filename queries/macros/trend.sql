-- Whether it gets better or worse: figures of the complete turns of a range, of the earlier and of the later half of its time, from
-- the first turn to the last. The difference has no interval; ``compare`` of two times has. Without rows where the turns are of
-- several runs: those are no trend.
--
-- Example: from trend(null, null, null, null)
--
--   figure       earlier  later  difference  unit
--   reuse_ratio  0.9      0.7    -0.2        ratio
--
-- columns
--   figure VARCHAR -- reuse_ratio, hit_ratio, restored_ratio, recomputed_ratio, new_ratio (of prompt tokens) or median_ttft_seconds
--   earlier DOUBLE -- of the earlier half; null where it has no such turns
--   later DOUBLE -- of the later half
--   difference DOUBLE -- later - earlier
--   unit VARCHAR -- ratio or s
create or replace macro trend(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
with t as materialized (
  select start_ns, run, complete, prompt_tokens, hit_tokens, restored_tokens, recomputed_tokens, new_tokens, seen_tokens, ttft_ns
  from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
),
runs as (
  select count(distinct coalesce(run, '')) as n from t
),
halves as (
  select
    t.start_ns > (e.first_ns + e.last_ns) // 2 as late,
    sum(prompt_tokens)::double as prompt,
    sum(hit_tokens) / nullif(prompt, 0) as hit,
    sum(restored_tokens) / nullif(prompt, 0) as restored,
    sum(recomputed_tokens) / nullif(prompt, 0) as recomputed,
    sum(new_tokens) / nullif(prompt, 0) as new,
    sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (seen_tokens is not null) / nullif(sum(seen_tokens), 0)::double as reuse,
    median(ttft_ns / 1e9) as ttft
  from t
  cross join (select min(start_ns) as first_ns, max(start_ns) as last_ns from t) as e
  where complete
  group by 1
),
figures as (
  select
    late,
    unnest([
      {'place': 1, 'figure': 'reuse_ratio', 'value': reuse, 'unit': 'ratio'},
      {'place': 2, 'figure': 'hit_ratio', 'value': hit, 'unit': 'ratio'},
      {'place': 3, 'figure': 'restored_ratio', 'value': restored, 'unit': 'ratio'},
      {'place': 4, 'figure': 'recomputed_ratio', 'value': recomputed, 'unit': 'ratio'},
      {'place': 5, 'figure': 'new_ratio', 'value': new, 'unit': 'ratio'},
      {'place': 6, 'figure': 'median_ttft_seconds', 'value': ttft, 'unit': 's'}
    ], recursive := true)
  from halves
)
select
  figure,
  max(value) filter (not late) as earlier,
  max(value) filter (late) as later,
  later - earlier as difference,
  any_value(unit) as unit
from figures
where (select n from runs) = 1
group by figure, place
order by place;
