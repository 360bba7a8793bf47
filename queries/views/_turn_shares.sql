-- One row a turn: what share of its prompt came from where, how long it took and why, as conversation_of shows it.
--
-- columns
--   turn_id VARCHAR -- the turn
--   prompt_tokens BIGINT -- P [tokens]
--   cached_ratio DOUBLE -- (hit + restored) / P: not computed by this turn, wherever it was; null where incomplete
--   hit_ratio DOUBLE -- hit / P: was on the device
--   restored_ratio DOUBLE -- restored / P: came from another tier
--   recomputed_ratio DOUBLE -- recomputed / P: computed although seen before; null where S is unknown
--   new_ratio DOUBLE -- new / P: computed, not seen before; null where S is unknown
--   computed_ratio DOUBLE -- computed / P where recomputed and new are not told apart; else null
--   unobserved_ratio DOUBLE -- the events do not say / P
--   ttft_seconds DOUBLE -- arrival to first token [s]
--   total_seconds DOUBLE -- arrival to finish [s]
--   verdict VARCHAR -- as in view turns
--   main_cause VARCHAR -- as in view turns
--   started_at TIMESTAMP_NS -- arrival, UTC
--   run VARCHAR -- label of the experiment
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   incomplete_because VARCHAR -- why not complete
--   conversation_id VARCHAR -- conversation that the turn grows
--   conversation_digest UBIGINT -- md5 of it in short, by which it is found quickly
--   start_ns BIGINT -- arrival [ns]
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
create or replace view _turn_shares as
select
  turn_id,
  prompt_tokens,
  case when complete then (hit_tokens + restored_tokens) / nullif(prompt_tokens, 0)::double end as cached_ratio,
  hit_tokens / nullif(prompt_tokens, 0)::double as hit_ratio,
  restored_tokens / nullif(prompt_tokens, 0)::double as restored_ratio,
  recomputed_tokens / nullif(prompt_tokens, 0)::double as recomputed_ratio,
  new_tokens / nullif(prompt_tokens, 0)::double as new_ratio,
  case when recomputed_tokens is null then computed_tokens / nullif(prompt_tokens, 0)::double end as computed_ratio,
  unobserved_tokens / nullif(prompt_tokens, 0)::double as unobserved_ratio,
  ttft_ns / 1e9 as ttft_seconds,
  total_ns / 1e9 as total_seconds,
  verdict,
  main_cause,
  make_timestamp_ns(start_ns) as started_at,
  run,
  engine,
  replica,
  list_aggregate(incomplete_reasons, 'string_agg', ', ') as incomplete_because,
  conversation_id,
  conversation_digest,
  start_ns,
  trace_id,
  span_id
from _turn_verdicts;
