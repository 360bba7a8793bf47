-- One row a turn with its engine, its verdict and its main cause: table _turn_facts, and which turns contradict themselves.
--
-- A complete turn is contradictory where its usage counts other cached tokens than its events do (view _contradicted_counts), or its
-- times say otherwise than its events. Two rules for times, each against at least five other such
-- turns of the same engine start, and only of 1,024 tokens and more: tokens are said to be computed 20 times as fast as the median
-- turn computes them (a counter that is stuck: they were in the cache); or restored in no time, or 20 times as fast as the median
-- restore (they were there already, or belong to somebody else).
--
-- Where the cache was fine and something else was slow, that is the main cause: more than half of the time to the first token and at
-- least a second. Of a hit the queue and the frontend; a restore, of a hit or of a restored turn, that took four times as long as
-- the median one; and of a hit the rest, where that is four times what the median turn takes for as many tokens (at least 1,024).
--
-- Example: 40,000 tokens are said to be computed in 0.2 s; the median turn computes 2,700 a second:
--
--   fault                       contradiction
--   engine_fault.counter_stuck  by its events 40,000 tokens were computed in 0.200 s; others take about 14.81 s for as many
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
--   trace_digest UBIGINT -- md5 of trace_id in short, by which it is found quickly
--   turn_digest UBIGINT -- the same of turn_id
--   request_digest UBIGINT -- the same of request_id
--   span_digest UBIGINT -- the same of span_id
--   conversation_digest UBIGINT -- the same of conversation_id
--   main_cause VARCHAR -- as in view turns
--   not_cache_seconds DOUBLE -- of not_cache.*: in the queue, in the frontend, or beyond what is usual; else null [s]
--   verdict VARCHAR -- hit, restored, recomputed, cold, incomplete or contradictory
--   fault VARCHAR -- of a contradictory turn: engine_fault.*
--   contradiction VARCHAR -- of a contradictory turn: both sides
create or replace view _turn_verdicts as
with judged as (
  select
    t.*,
    u.computed_seconds_each * t.computed_tokens as computed_usually,
    u.restored_seconds_each * t.restored_tokens as restored_usually,
    t.complete and t.ttft_ns is not null as measured,
    case
      when t.counted_cached_tokens = 0 and t.restored_tokens > 0 then 'engine_fault.foreign_restore'
      when t.counted_cached_tokens = 0 then 'engine_fault.counter_stuck'
      when t.counted_cached_tokens is not null then 'engine_fault.counter_differs'
      when measured
        and t.computed_tokens >= 1024
        and u.computing_turns > 5
        and 20 * t.compute_ns / 1e9 < u.computed_seconds_each * t.computed_tokens
        then 'engine_fault.counter_stuck'
      when measured
        and t.restored_tokens >= 1024
        and u.restoring_turns > 5
        and 20 * t.restore_ns / 1e9 < u.restored_seconds_each * t.restored_tokens
        then 'engine_fault.foreign_restore'
    end as fault,
    case
      when fault is not null or t.main_cause like 'not_cache.%' then coalesce(fault, t.main_cause)
      when measured
        and t.verdict in ('hit', 'restored')
        and t.restore_ns > t.ttft_ns / 2
        and t.restore_ns >= 1_000_000_000
        and (t.restored_tokens = 0 or u.restoring_turns > 5 and t.restore_ns / 1e9 > 4 * restored_usually)
        then 'not_cache.slow_restore'
      when measured
        and t.verdict = 'hit'
        and t.compute_ns > t.ttft_ns / 2
        and t.compute_ns >= 1_000_000_000
        and u.computing_turns > 5
        and t.compute_ns / 1e9 > 4 * greatest(computed_usually, 1024 * u.computed_seconds_each)
        then 'not_cache.load'
      else t.main_cause
    end as found_cause
  from _turn_facts as t
  left join _speed_facts as u using (resource_id)
)
select
  * exclude (
    verdict, main_cause, fault, measured, computed_usually, restored_usually, found_cause,
    counted_cached_tokens
  ),
  found_cause as main_cause,
  case found_cause
    when 'not_cache.queue' then queue_ns / 1e9
    when 'not_cache.frontend' then frontend_ns / 1e9
    when 'not_cache.slow_restore' then restore_ns / 1e9 - coalesce(restored_usually, 0)
    when 'not_cache.load' then compute_ns / 1e9 - computed_usually
  end as not_cache_seconds,
  case when fault is null then verdict else 'contradictory' end as verdict,
  fault,
  case
    when counted_cached_tokens is not null
      then format(
        'by its events {:,} tokens were cached; its usage says {:,}', hit_tokens + restored_tokens, counted_cached_tokens
      )
    when fault = 'engine_fault.counter_stuck'
      then format(
        'by its events {:,} tokens were computed in {:.3f} s; others take about {:.2f} s for as many',
        computed_tokens, compute_ns / 1e9, computed_usually
      )
    when fault = 'engine_fault.foreign_restore'
      then format(
        'by its events {:,} tokens were restored in {:.3f} s; others take about {:.2f} s for as many',
        restored_tokens, restore_ns / 1e9, restored_usually
      )
  end as contradiction
from judged;
