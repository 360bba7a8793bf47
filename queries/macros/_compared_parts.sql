-- What the figures of a comparison are made of: one row a side, a conversation and a figure. A sum is the numerators added, a ratio
-- the numerators by the denominators; a quantile is of all ``measured`` together. Complete turns only, but for their count.
--
-- Example: from _compared_parts('run', 'before', 'after', null, null, null, null, null, null) where figure = 'hit_ratio', of two
-- conversations on each side:
--
--   figure     side  cluster         numerator  denominator  turns
--   hit_ratio  a     conversation x  96         240          2
--   hit_ratio  a     conversation y  0          300          1
create or replace macro _compared_parts(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run) as table
with every as materialized (
  from _compared_turns(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run)
),
t as (
  from every where complete
),
sums as (
  select
    side,
    cluster,
    count(*) filter (complete) as turns,
    count(*) filter (not complete) as incomplete,
    coalesce(sum(prompt_tokens) filter (complete), 0) as prompt,
    count(*) filter (complete and continues) as goes_on,
    count(*) filter (complete and continues and below_hit) as below_hit,
    count(*) filter (complete and continues and below_cached) as below_cached,
    -- What a turn restores of its own, after a preemption, had not been seen before: it is no reuse of what had.
    coalesce(sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null), 0) as reused,
    coalesce(sum(seen_tokens) filter (complete), 0) as seen,
    count(seen_tokens) filter (complete and seen_tokens > 0) as seen_turns,
    coalesce(sum(hit_tokens) filter (complete), 0) as hit,
    coalesce(sum(restored_tokens) filter (complete), 0) as restored,
    -- Where nobody knows what had been seen, null and not 0.
    sum(recomputed_tokens) filter (complete) as recomputed,
    sum(new_tokens) filter (complete) as new,
    count(recomputed_tokens) filter (complete) as told_turns,
    coalesce(sum(computed_tokens) filter (complete and recomputed_tokens is null), 0) as untold,
    sum(lost_seconds) filter (complete) as lost,
    count(lost_seconds) filter (complete) as lost_turns,
    coalesce(sum(not_cache_seconds) filter (complete), 0) as not_cache
  from every
  group by side, cluster
),
counted as (
  select
    side,
    cluster,
    unnest([
      {'figure': 'turns', 'kind': 'sum', 'numerator': turns::double, 'denominator': null::double, 'turns': turns},
      {'figure': 'incomplete_turns', 'kind': 'sum', 'numerator': incomplete, 'denominator': null, 'turns': incomplete},
      {'figure': 'prompt_tokens', 'kind': 'sum', 'numerator': prompt, 'denominator': null, 'turns': turns},
      {'figure': 'continuation_turns', 'kind': 'sum', 'numerator': goes_on, 'denominator': null, 'turns': turns},
      {'figure': 'below_half_hit_turns', 'kind': 'sum', 'numerator': below_hit, 'denominator': null, 'turns': goes_on},
      {'figure': 'below_half_hit_ratio', 'kind': 'ratio', 'numerator': below_hit, 'denominator': goes_on, 'turns': goes_on},
      {'figure': 'half_hit_turns', 'kind': 'sum', 'numerator': goes_on - below_hit, 'denominator': null, 'turns': goes_on},
      {'figure': 'below_half_cached_turns', 'kind': 'sum', 'numerator': below_cached, 'denominator': null, 'turns': goes_on},
      {'figure': 'below_half_cached_ratio', 'kind': 'ratio', 'numerator': below_cached, 'denominator': goes_on, 'turns': goes_on},
      {'figure': 'half_cached_turns', 'kind': 'sum', 'numerator': goes_on - below_cached, 'denominator': null, 'turns': goes_on},
      {'figure': 'reuse_ratio', 'kind': 'ratio', 'numerator': reused, 'denominator': seen, 'turns': seen_turns},
      {'figure': 'hit_ratio', 'kind': 'ratio', 'numerator': hit, 'denominator': prompt, 'turns': turns},
      {'figure': 'restored_ratio', 'kind': 'ratio', 'numerator': restored, 'denominator': prompt, 'turns': turns},
      {'figure': 'recomputed_ratio', 'kind': 'ratio', 'numerator': recomputed, 'denominator': prompt, 'turns': told_turns},
      {'figure': 'new_ratio', 'kind': 'ratio', 'numerator': new, 'denominator': prompt, 'turns': told_turns},
      {'figure': 'untold_ratio', 'kind': 'ratio', 'numerator': untold, 'denominator': prompt, 'turns': turns},
      {'figure': 'lost_seconds', 'kind': 'sum', 'numerator': lost, 'denominator': null, 'turns': lost_turns},
      {'figure': 'lost_seconds_per_turn', 'kind': 'ratio', 'numerator': lost, 'denominator': lost_turns, 'turns': lost_turns},
      {'figure': 'not_cache_seconds', 'kind': 'sum', 'numerator': not_cache, 'denominator': null, 'turns': turns},
      {'figure': 'not_cache_seconds_per_turn', 'kind': 'ratio', 'numerator': not_cache, 'denominator': turns, 'turns': turns}
    ], recursive := true)
  from sums
),
causes_seen as (
  select distinct main_cause from t where main_cause is not null
),
by_cause as (
  select side, cluster, main_cause, count(*) as turns from t group by all
),
measured as (
  select side, cluster, 'ttft_median_seconds' as figure, 0.5 as quantile, ttft_seconds as seconds from t
  union all
  select side, cluster, 'ttft_p90_seconds', 0.9, ttft_seconds from t
  union all
  select side, cluster, 'ttft_median_seconds.' || verdict, 0.5, ttft_seconds from t
  union all
  select side, cluster, 'ttft_p90_seconds.' || verdict, 0.9, ttft_seconds from t
  union all
  select side, cluster, if(below_hit, 'below_half_hit_median_seconds', 'half_hit_median_seconds'), 0.5, total_seconds from t where continues
  union all
  select side, cluster, if(below_cached, 'below_half_cached_median_seconds', 'half_cached_median_seconds'), 0.5, total_seconds
  from t
  where continues
)
select figure, kind, side, cluster, numerator, denominator, turns, null::double as quantile, null::double[] as measured
from counted
union all
select 'cause_ratio.' || main_cause, 'ratio', side, cluster, coalesce(c.turns, 0), s.turns, s.turns, null, null
from (select side, cluster, turns from sums where turns > 0) as s
cross join causes_seen
left join by_cause as c using (side, cluster, main_cause)
union all
select figure, 'quantile', side, cluster, null, null, count(*), any_value(quantile), list(seconds)
from measured
where seconds is not null
group by side, cluster, figure;
