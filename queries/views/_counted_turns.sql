-- One row a turn as vLLM's own counters take it: what its first attempt's last admission promised, and by which of vLLM's known
-- differences the turn became something else.
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   run VARCHAR -- label of the experiment
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   turn_id VARCHAR -- the turn
--   prompt_tokens BIGINT -- P [tokens]
--   is_read BOOLEAN -- whether the cache was to be read
--   status VARCHAR -- how it ended
--   complete BOOLEAN -- every prompt position was observed without contradiction
--   first_token_ns BIGINT -- when it produced its first token [ns]
--   end_ns BIGINT -- when it ended [ns]
--   hit_tokens BIGINT -- coverage [tokens]
--   restored_tokens BIGINT -- coverage [tokens]
--   work_hit_tokens BIGINT -- local tokens consumed, over all attempts [tokens]
--   work_restored_tokens BIGINT -- restored tokens consumed, over all attempts [tokens]
--   work_computed_tokens BIGINT -- prompt tokens computed, over all attempts [tokens]
--   output_tokens BIGINT -- generated [tokens]
--   self_recovered_tokens BIGINT -- its own, found again after a preemption [tokens]
--   promised_hit_tokens BIGINT -- found on the device by that admission; null where there was none [tokens]
--   promised_restored_tokens BIGINT -- and offered by another tier [tokens]
--   known_difference VARCHAR -- preempted_in_prefill, failed_synchronous_restore, failed_asynchronous_restore, cancelled_restore, full_hit_with_external_tail, preempted_in_decode; null where the turn went as promised
create or replace view _counted_turns as
with admits as (
  select
    trace_id,
    parent_span_id as span_id,
    max_by(admit_hit_tokens, (end_ns, s.sequence)) filter (attempt = 1) as hit,
    max_by(admit_offered_tokens, (end_ns, s.sequence)) filter (attempt = 1) as offered,
    sum(admit_offered_tokens) as offered_ever
  from spans as s
  where name = 'scheduler.admit'
  group by all
),
restores as (
  select
    trace_id,
    parent_span_id as span_id,
    bool_or(outcome in ('failed', 'timed_out')) as has_failed,
    bool_or(outcome in ('cancelled', 'stale')) as has_been_left
  from spans
  where name = 'snapshot.restore' and attempt = 1
  group by all
)
select
  t.engine,
  t.replica,
  t.run,
  t.trace_id,
  t.span_id,
  t.turn_id,
  t.prompt_tokens,
  t.cache_disabled is null as is_read,
  t.status,
  t.complete,
  t.start_ns + t.ttft_ns as first_token_ns,
  t.end_ns,
  t.hit_tokens,
  t.restored_tokens,
  t.work_hit_tokens,
  t.work_restored_tokens,
  t.work_computed_tokens,
  t.output_tokens,
  t.self_recovered_tokens,
  a.hit as promised_hit_tokens,
  a.offered as promised_restored_tokens,
  case
    when p.span_id is not null then 'preempted_in_prefill'
    -- A synchronous load is used by the step that it came with: that step's output was discarded as well as the offer.
    when r.has_failed and t.discarded_tokens > a.offered_ever - t.work_restored_tokens then 'failed_synchronous_restore'
    when r.has_failed then 'failed_asynchronous_restore'
    when r.has_been_left then 'cancelled_restore'
    when t.attempts > 1 then 'preempted_in_decode'
    when a.offered > 0 and a.hit + a.offered >= t.prompt_tokens then 'full_hit_with_external_tail'
  end as known_difference
from _turn_verdicts as t
left join admits as a using (trace_id, span_id)
left join restores as r using (trace_id, span_id)
left join _preemptions as p on p.trace_id = t.trace_id and p.turn_span_id = t.span_id;
