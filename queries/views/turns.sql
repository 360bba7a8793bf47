-- One row a turn: what came from where, how it went, and the main cause.
--
-- Example: select turn_id, hit_tokens, restored_tokens, recomputed_tokens, new_tokens, verdict, main_cause from turns
--
-- columns
--   turn_id VARCHAR -- readable id, unique within one engine start
--   request_id VARCHAR -- id of the request
--   conversation_id VARCHAR -- conversation that the turn grows
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   run VARCHAR -- label of the experiment
--   tenant VARCHAR -- on whose behalf
--   model VARCHAR -- model that was asked for
--   session_id VARCHAR -- engine session that the turn resumes
--   started_at TIMESTAMP_NS -- arrival, UTC
--   prompt_tokens BIGINT -- P [tokens]
--   seen_tokens BIGINT -- S: longest prefix seen before in any turn [tokens]
--   seen_basis VARCHAR -- how S was found: keys, engine (keys of what it still holds), conversation (an estimate) or none
--   hit_tokens BIGINT -- KV was on the device [tokens]
--   restored_tokens BIGINT -- KV came from another tier [tokens]
--   computed_tokens BIGINT -- went through the model: recomputed + new [tokens]
--   recomputed_tokens BIGINT -- went through the model although seen; null where S is unknown [tokens]
--   new_tokens BIGINT -- went through the model, not seen before; null where S is unknown [tokens]
--   unobserved_tokens BIGINT -- the events do not say [tokens]
--   work_hit_tokens BIGINT -- over all attempts: local tokens consumed [tokens]
--   work_restored_tokens BIGINT -- over all attempts: restored tokens consumed [tokens]
--   work_computed_tokens BIGINT -- over all attempts: prompt tokens computed [tokens]
--   wasted_restored_tokens BIGINT -- restored work that is not in coverage [tokens]
--   wasted_computed_tokens BIGINT -- computed work that is not in coverage [tokens]
--   self_recovered_tokens BIGINT -- found still on the device by a later attempt [tokens]
--   discarded_tokens BIGINT -- offered, loaded or computed for nothing [tokens]
--   output_tokens BIGINT -- generated [tokens]
--   attempts BIGINT -- accepted admissions
--   retries BIGINT -- failed admissions
--   frontend_seconds DOUBLE -- arrival at the server to the scheduler [s]
--   queue_seconds DOUBLE -- scheduler to first admission; null where the source does not say [s]
--   restore_seconds DOUBLE -- restores under way before the first token [s]
--   compute_seconds DOUBLE -- the rest of the time to the first token, with the queue where that is null [s]
--   ttft_seconds DOUBLE -- arrival to first token [s]
--   total_seconds DOUBLE -- arrival to finish [s]
--   verdict VARCHAR -- hit, restored, recomputed or cold: the largest within S, ties to the worse; incomplete, contradictory
--   main_cause VARCHAR -- the cause of most tokens of the verdict's source; not_cache.* where something else was slow
--   not_cache_seconds DOUBLE -- of not_cache.*: in the queue, in the frontend, or beyond what is usual; else null [s]
--   contradiction VARCHAR -- of a contradictory turn: what the times say against the events
--   status VARCHAR -- how the turn ended; null while its span has not arrived
--   complete BOOLEAN -- every prompt position was observed without contradiction
--   incomplete_reasons VARCHAR[] -- why not complete; empty for a complete turn
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   resource_id VARCHAR -- the engine start
--   start_ns BIGINT -- arrival [ns]
--   end_ns BIGINT -- finish [ns]
create or replace view turns as
select
  turn_id,
  request_id,
  conversation_id,
  engine,
  replica,
  run,
  tenant,
  model,
  session_id,
  make_timestamp_ns(start_ns) as started_at,
  prompt_tokens,
  seen_tokens,
  seen_basis,
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
  output_tokens,
  attempts,
  retries,
  frontend_ns / 1e9 as frontend_seconds,
  queue_ns / 1e9 as queue_seconds,
  restore_ns / 1e9 as restore_seconds,
  compute_ns / 1e9 as compute_seconds,
  ttft_ns / 1e9 as ttft_seconds,
  total_ns / 1e9 as total_seconds,
  verdict,
  main_cause,
  not_cache_seconds,
  contradiction,
  status,
  complete,
  incomplete_reasons,
  trace_id,
  span_id,
  resource_id,
  start_ns,
  end_ns
from _turn_verdicts;
