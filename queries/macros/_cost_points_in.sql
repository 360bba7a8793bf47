-- What the fits of macro snapshot_cost stand on: one row a turn and a fit, with the seconds that are explained and the two counts
-- that may explain them. Complete turns with a first token and a single attempt. Waiting in the queue is in none of the seconds.
--
-- Example: from _cost_points_in('ring0', null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   reuse VARCHAR -- cold, warm, grown or restored, as in macro snapshot_cost
--   seconds_of VARCHAR -- served, frontend, engine or restore
--   per VARCHAR -- message, publish or restore
--   seconds DOUBLE -- what it took [s]
--   things DOUBLE -- messages, publishes or restores of the turn
--   tokens DOUBLE -- prompt, computed or restored tokens [tokens]
--   tokens_of VARCHAR -- which of them
create or replace macro _cost_points_in(the_engine, the_run, since, until) as table
with published as (
  select trace_id, parent_span_id as span_id, end_ns, coalesce(len(keys), 1) as publishes
  from spans
  where name = 'snapshot.publish' and tier = 'device' and outcome = 'committed'
    -- Before a turn's first token, which takes less than a day: other times are not read.
    and (since is null or end_ns >= since)
    and (until is null or end_ns < until + 86_400_000_000_000)
),
facts as (
  select
    t.engine,
    t.trace_id,
    t.span_id,
    t.prompt_tokens,
    t.computed_tokens,
    t.restored_tokens,
    t.message_count,
    t.frontend_ns / 1e9 as frontend_seconds,
    t.restore_ns / 1e9 as restore_seconds,
    (t.ttft_ns - coalesce(t.queue_ns, 0)) / 1e9 as served_seconds,
    (t.ttft_ns - coalesce(t.queue_ns, 0) - coalesce(t.frontend_ns, 0)) / 1e9 as engine_seconds,
    coalesce(sum(p.publishes) filter (p.end_ns <= t.start_ns + t.ttft_ns), 0) as publishes,
    -- The last token of a prompt that is there as a whole is computed still, with the unit that it lies in.
    case
      when t.hit_tokens + t.restored_tokens = 0 then 'cold'
      when t.hit_tokens + t.restored_tokens >= (t.prompt_tokens - 1) // r.unit * r.unit and t.new_tokens < r.unit then 'warm'
      when t.hit_tokens + t.restored_tokens >= least(t.seen_tokens, t.prompt_tokens - 1) // r.unit * r.unit then 'grown'
    end as reuse
  from _verdicts_in(the_engine, the_run, since, until) as t
  left join (select resource_id, greatest(coalesce(unit_tokens, 1), 1) as unit from resources) as r on r.resource_id = t.resource_id
  left join published as p on p.trace_id = t.trace_id and p.span_id = t.span_id
  where t.complete and t.ttft_ns is not null and t.attempts = 1
  group by all
),
restored as (
  select f.engine, f.restore_seconds, f.restored_tokens, count(*) as restores
  from facts as f
  join spans as s on s.trace_id = f.trace_id and s.parent_span_id = f.span_id
  where s.name = 'snapshot.restore' and s.outcome = 'verified' and f.restored_tokens > 0
    and (since is null or s.end_ns >= since)
    and (until is null or s.end_ns < until + 86_400_000_000_000)
  group by f.engine, f.restore_seconds, f.restored_tokens, f.trace_id, f.span_id
),
points as (
  select engine, reuse, 'served' as seconds_of, 'message' as per, served_seconds as seconds, message_count as things,
    prompt_tokens as tokens, 'prompt' as tokens_of
  from facts where reuse in ('cold', 'warm')
  union all
  select engine, reuse, 'frontend', 'message', frontend_seconds, message_count, prompt_tokens, 'prompt'
  from facts where reuse in ('cold', 'warm')
  union all
  select engine, reuse, 'engine', 'message', engine_seconds, message_count, prompt_tokens, 'prompt'
  from facts where reuse in ('cold', 'warm')
  union all
  select engine, reuse, 'engine', 'publish', engine_seconds, publishes, computed_tokens, 'computed'
  from facts where reuse in ('cold', 'grown')
  union all
  select engine, 'restored', 'restore', 'restore', restore_seconds, restores, restored_tokens, 'restored'
  from restored
)
select engine, reuse, seconds_of, per, seconds, things::double as things, tokens::double as tokens, tokens_of
from points
where seconds is not null and things is not null and tokens is not null and reuse is not null;
