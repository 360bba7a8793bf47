-- Reuse at re-ask against what passed since the last use, in steps of 1, 2, 5, 10. ``axis`` is publishes, conversations, turns,
-- tokens (computed by others) or seconds. Ratios are of sums over the re-asks of a step; see macro reasks for what is counted.
--
-- Example: from retention_curve('ring0', null, null, null, 'publishes')
--
-- columns
--   passed_from BIGINT -- the step begins here
--   passed_before BIGINT -- and ends before this
--   passed_least DOUBLE -- the least that passed in one of its re-asks
--   passed_most DOUBLE -- the most
--   turns BIGINT -- turns that asked again
--   seen_tokens BIGINT -- what they asked for again [tokens]
--   hit_tokens BIGINT -- of it on the device still [tokens]
--   restored_tokens BIGINT -- of it brought back from another tier [tokens]
--   reuse_ratio DOUBLE -- (hit + restored) / seen tokens, of the sums
--   hit_ratio DOUBLE -- hit / seen tokens, of the sums
--   restored_ratio DOUBLE -- restored / seen tokens, of the sums
--   median_reuse_ratio DOUBLE -- median over the re-asks
create or replace macro retention_curve(the_engine, the_run, since, until, axis, the_start := null) as table
with asked as (
  select
    *,
    case axis
      when 'publishes' then publishes
      when 'conversations' then other_conversations
      when 'turns' then other_turns
      when 'tokens' then computed_tokens
      when 'seconds' then idle_seconds
      else error('There is no axis ' || coalesce(axis, 'null') || ': publishes, conversations, turns, tokens or seconds.')
    end::double as passed
  from _reasks_in(the_engine, the_run, since, until, axis = 'conversations', the_start)
),
scaled as (
  select *, pow(10, length(floor(passed)::bigint::varchar) - 1)::bigint as power
  from asked
  where passed is not null
),
stepped as (
  select
    *,
    case when passed < 10 then 0 when passed >= 5 * power then 5 * power when passed >= 2 * power then 2 * power else power end
      as passed_from,
    case when passed < 10 then 10 when passed >= 5 * power then 10 * power when passed >= 2 * power then 5 * power else 2 * power end
      as passed_before
  from scaled
)
select
  passed_from,
  passed_before,
  min(passed) as passed_least,
  max(passed) as passed_most,
  count(distinct (trace_id, span_id)) as turns,
  sum(seen_tokens)::bigint as seen_tokens,
  sum(hit_tokens)::bigint as hit_tokens,
  sum(restored_tokens)::bigint as restored_tokens,
  sum(hit_tokens + restored_tokens) / sum(seen_tokens)::double as reuse_ratio,
  sum(hit_tokens) / sum(seen_tokens)::double as hit_ratio,
  sum(restored_tokens) / sum(seen_tokens)::double as restored_ratio,
  median(reuse_ratio) as median_reuse_ratio
from stepped
group by passed_from, passed_before
order by passed_from;
