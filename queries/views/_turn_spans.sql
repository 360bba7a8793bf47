-- One row a turn: its span, with what was learnt after it had been sent, and turns whose span never arrived (an admission is
-- there, the end is not: the engine is still at work on it, or died).
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn; with trace_id the identity of the turn
--   resource_id VARCHAR -- the engine start that served it
--   turn_id VARCHAR -- readable id, unique within one engine start
--   request_id VARCHAR -- id of the request
--   conversation_id VARCHAR -- conversation that the turn grows
--   session_id VARCHAR -- engine session that the turn resumes
--   run VARCHAR -- label of the experiment
--   tenant VARCHAR -- on whose behalf
--   model VARCHAR -- model that was asked for
--   start_ns BIGINT -- arrival [ns]
--   end_ns BIGINT -- finish [ns]; null while the turn's span has not arrived
--   prompt_tokens BIGINT -- P [tokens]
--   output_tokens BIGINT -- generated [tokens]
--   message_count BIGINT -- messages in the prompt
--   status VARCHAR -- how it ended; null where its span has not arrived
--   complete BOOLEAN -- every prompt position was observed without contradiction
--   incomplete_reasons VARCHAR[] -- why not complete; empty for a complete turn
--   cache_disabled VARCHAR -- by_request or by_configuration
--   hit_tokens BIGINT -- coverage [tokens]
--   restored_tokens BIGINT -- coverage [tokens]
--   computed_tokens BIGINT -- coverage, recomputed + new [tokens]
--   recomputed_tokens BIGINT -- coverage; null where S is unknown [tokens]
--   new_tokens BIGINT -- coverage; null where S is unknown [tokens]
--   unobserved_tokens BIGINT -- coverage [tokens]
--   work_hit_tokens BIGINT -- work over all attempts [tokens]
--   work_restored_tokens BIGINT -- work over all attempts [tokens]
--   work_computed_tokens BIGINT -- work over all attempts [tokens]
--   wasted_restored_tokens BIGINT -- restored work that is not in coverage [tokens]
--   wasted_computed_tokens BIGINT -- computed work that is not in coverage [tokens]
--   self_recovered_tokens BIGINT -- found still on the device by a later attempt [tokens]
--   discarded_tokens BIGINT -- offered, loaded or computed for nothing [tokens]
--   seen_tokens BIGINT -- S [tokens]
--   seen_basis VARCHAR -- keys, engine, conversation or none
--   seen_since_ns BIGINT -- nothing older is known for certain [ns]
--   attempts BIGINT -- accepted admissions
--   retries BIGINT -- failed admissions
--   restores BIGINT -- restores, skipped ones too
--   frontend_ns BIGINT -- arrival at the server to the scheduler [ns]
--   queue_ns BIGINT -- scheduler to first admission [ns]
--   restore_ns BIGINT -- restores under way before the first token [ns]
--   compute_ns BIGINT -- the rest of the time to the first token [ns]
--   ttft_ns BIGINT -- arrival to first token [ns]
--   total_ns BIGINT -- arrival to finish [ns]
--   recorded_verdict VARCHAR -- the recorder's verdict, to check against
--   segments_start_tokens BIGINT[] -- first position of each segment [tokens]
--   segments_end_tokens BIGINT[] -- position past the last of each segment [tokens]
--   segments_source VARCHAR[] -- source of each segment
--   segments_origin VARCHAR[] -- how a segment came to be held
--   segments_key VARCHAR[] -- first key past each segment's start
--   segments_provider VARCHAR[] -- the turn that had brought this prefix
--   segments_provided_ns BIGINT[] -- when it had [ns]
--   segments_used_ns BIGINT[] -- when the prefix was last used [ns]
--   segments_fate VARCHAR[] -- the span that says why it was not on the device, as far as the recorder knew
create or replace view _turn_spans as
with corrections as (
  select trace_id, parent_span_id as span_id, list_sort(list_distinct(flatten(list(incomplete_reasons)))) as reasons
  from spans
  where name = 'turn.correction'
  group by all
),
unfinished as (
  select
    trace_id,
    parent_span_id as span_id,
    any_value(resource_id) as resource_id,
    any_value(turn_id) as turn_id,
    any_value(request_id) as request_id,
    any_value(conversation_id) as conversation_id,
    min(start_ns) as start_ns
  from spans as admits
  where name = 'scheduler.admit'
    and turn_id is not null
    and not exists (
      from spans as ended
      where ended.name = 'turn' and ended.trace_id = admits.trace_id and ended.span_id = admits.parent_span_id
    )
  group by all
),
every as (
  select s.*, coalesce(s.incomplete_reasons, []) || coalesce(corrections.reasons, []) as reasons
  from spans as s
  left join corrections using (trace_id, span_id)
  where s.name = 'turn' and s.turn_id is not null
  union all by name
  select *, ['turn_not_finished'] as reasons
  from unfinished
)
select
  trace_id,
  span_id,
  resource_id,
  turn_id,
  request_id,
  conversation_id,
  session_id,
  run,
  tenant,
  model,
  start_ns,
  end_ns,
  prompt_tokens,
  output_tokens,
  message_count,
  status,
  -- The sum is checked here once more: a turn whose parts do not make up its prompt is not complete, whatever it says.
  coalesce(complete, false)
    and len(reasons) = 0
    and coalesce(hit_tokens + restored_tokens + computed_tokens = prompt_tokens and unobserved_tokens = 0, false) as complete,
  case
    when coalesce(complete, false)
      and not coalesce(hit_tokens + restored_tokens + computed_tokens = prompt_tokens and unobserved_tokens = 0, false)
      then reasons || ['parts_do_not_sum']
    when complete is null and len(reasons) = 0 then ['accounts_missing']
    else reasons
  end as incomplete_reasons,
  cache_disabled,
  hit_tokens,
  restored_tokens,
  computed_tokens,
  recomputed_tokens,
  new_tokens,
  unobserved_tokens,
  work_hit_tokens,
  work_restored_tokens,
  work_computed_tokens,
  wasted_restored_tokens,
  wasted_computed_tokens,
  self_recovered_tokens,
  discarded_tokens,
  seen_tokens,
  seen_basis,
  seen_since_ns,
  attempts,
  retries,
  restores,
  frontend_ns,
  queue_ns,
  restore_ns,
  compute_ns,
  ttft_ns,
  total_ns,
  verdict as recorded_verdict,
  segments_start_tokens,
  segments_end_tokens,
  segments_source,
  segments_origin,
  segments_key,
  segments_provider,
  segments_provided_ns,
  segments_used_ns,
  segments_fate
from every;
