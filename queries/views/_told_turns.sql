-- What table _turn_facts keeps, told from the spans: one row a turn with its engine, its verdict and its main cause. Whether a turn is
-- contradictory depends on all turns of its engine, so that is told where facts are read (view _turn_verdicts).
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
--   avoidable_new_tokens BIGINT -- of the new tokens those that a cache could have had: held elsewhere, or changed in the prompt [tokens]
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
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   verdict VARCHAR -- hit, restored, recomputed, cold or incomplete; whether its times contradict it, view _turn_verdicts tells
--   main_cause VARCHAR -- the cause of most tokens of the verdict's source; not_cache.* where a hit waited for something else
--   counted_cached_tokens BIGINT -- cached tokens by a usage that the events contradict; null where there is none [tokens]
--   trace_digest UBIGINT -- md5 of trace_id in short, by which it is found quickly
--   turn_digest UBIGINT -- the same of turn_id
--   request_digest UBIGINT -- the same of request_id
--   span_digest UBIGINT -- the same of span_id
--   conversation_digest UBIGINT -- the same of conversation_id
create or replace view _told_turns as
with judged as (
  select
    t.*,
    r.engine,
    r.replica,
    -- Past S lies what an attempt of this turn itself had left on another tier.
    case when t.seen_tokens is null then t.restored_tokens else greatest(least(t.restored_tokens, t.seen_tokens - t.hit_tokens), 0) end
      as restored_within,
    case
      when not t.complete then 'incomplete'
      when t.seen_tokens is null and t.hit_tokens = 0 and t.restored_tokens = 0 then 'cold'
      when t.seen_tokens = 0 or t.seen_tokens < coalesce(r.unit_tokens, 1) then 'cold'
      when coalesce(t.recomputed_tokens, 0) >= greatest(restored_within, t.hit_tokens) then 'recomputed'
      when restored_within >= t.hit_tokens then 'restored'
      else 'hit'
    end as verdict
  from _turn_spans as t
  left join resources as r using (resource_id)
),
weights as (
  select c.trace_id, c.turn_span_id as span_id, c.source, c.cause, sum(c.end_token - c.start_token) as tokens
  from _told_causes as c
  group by all
),
avoidable as (
  select trace_id, span_id, sum(tokens) as tokens
  from weights
  where source = 'new' and split_part(cause, '.', 1) in (select class from _avoidable_classes)
  group by all
),
main as (
  select w.trace_id, w.span_id, w.cause
  from weights as w
  join judged as j using (trace_id, span_id)
  where case j.verdict
    when 'hit' then w.source = 'hit'
    when 'restored' then w.source = 'restored'
    when 'recomputed' then w.source = 'recomputed'
    when 'cold' then w.source in ('new', 'computed', 'recomputed')
    else w.source = 'unobserved'
  end
  qualify row_number() over (partition by w.trace_id, w.span_id order by w.tokens desc, w.cause) = 1
)
select
  j.trace_id,
  j.span_id,
  j.resource_id,
  j.turn_id,
  j.request_id,
  j.conversation_id,
  j.session_id,
  j.run,
  j.tenant,
  j.model,
  j.start_ns,
  j.end_ns,
  j.prompt_tokens,
  j.output_tokens,
  j.message_count,
  j.status,
  j.complete,
  j.incomplete_reasons,
  j.cache_disabled,
  j.hit_tokens,
  j.restored_tokens,
  j.computed_tokens,
  j.recomputed_tokens,
  j.new_tokens,
  coalesce(a.tokens, 0)::bigint as avoidable_new_tokens,
  j.unobserved_tokens,
  j.work_hit_tokens,
  j.work_restored_tokens,
  j.work_computed_tokens,
  j.wasted_restored_tokens,
  j.wasted_computed_tokens,
  j.self_recovered_tokens,
  j.discarded_tokens,
  j.seen_tokens,
  j.seen_basis,
  j.seen_since_ns,
  j.attempts,
  j.retries,
  j.restores,
  j.frontend_ns,
  j.queue_ns,
  j.restore_ns,
  j.compute_ns,
  j.ttft_ns,
  j.total_ns,
  j.recorded_verdict,
  j.engine,
  j.replica,
  j.verdict,
  case
    -- The cache did its work and the turn still waited: more than half of the time to the first token, and at least a second.
    when j.verdict = 'hit' and j.queue_ns > j.ttft_ns / 2 and j.queue_ns >= 1_000_000_000 then 'not_cache.queue'
    when j.verdict = 'hit' and j.frontend_ns > j.ttft_ns / 2 and j.frontend_ns >= 1_000_000_000 then 'not_cache.frontend'
    when j.verdict = 'incomplete' then coalesce(m.cause, 'unobserved.events_missing')
    else m.cause
  end as main_cause,
  c.counted_cached_tokens,
  md5_number_lower(j.trace_id) as trace_digest,
  md5_number_lower(j.turn_id) as turn_digest,
  md5_number_lower(j.request_id) as request_digest,
  md5_number_lower(j.span_id) as span_digest,
  md5_number_lower(j.conversation_id) as conversation_digest
from judged as j
left join main as m using (trace_id, span_id)
left join avoidable as a on a.trace_id = j.trace_id and a.span_id = j.span_id
left join _contradicted_counts as c on c.trace_id = j.trace_id and c.span_id = j.span_id;
