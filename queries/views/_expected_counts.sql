-- One row an event that one of vLLM's counters counts: what there was to count, and what vLLM 0.32 counts, which is what it had promised
-- at the admission. Cache lookups are counted at every admission before a preemption, prompt tokens with the first token, requests
-- when they end. What was really done counts once a turn.
--
-- Example: P 560, hit 128, 352 offered and failed with 160 valid, computed 160-560:
--
--   counter                                       events  promised  known_difference
--   vllm:external_prefix_cache_hits                   32       352  failed_asynchronous_restore
--   vllm:prompt_tokens_by_source{local_compute}      400        80  failed_asynchronous_restore
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   run VARCHAR -- label of the experiment
--   counter VARCHAR -- the counter's name without _total, and its source in braces where it has one
--   at_ns BIGINT -- when it is counted [ns]
--   turn_id VARCHAR -- the turn
--   complete BOOLEAN -- whether the turn is
--   events BIGINT -- what there was; null where the turn has not ended [tokens or requests]
--   promised BIGINT -- what vLLM counts [tokens or requests]
--   self_recovered BIGINT -- of a preempted turn, what versions before 0.32 count as hits besides [tokens]
--   known_difference VARCHAR -- the name of what makes the two differ
create or replace view _expected_counts as
with lookups as (
  select
    t.*,
    a.end_ns as at_ns,
    a.admit_hit_tokens as hit,
    a.admit_offered_tokens as offered,
    row_number() over (partition by t.trace_id, t.span_id order by a.end_ns, a.sequence) = 1 as is_first
  from _counted_turns as t
  join spans as a on a.name = 'scheduler.admit' and a.trace_id = t.trace_id and a.parent_span_id = t.span_id and a.attempt = 1
),
counts as (
  select *, unnest([
    {
      'counter': 'vllm:prefix_cache_queries',
      'events': case when is_first then prompt_tokens else 0 end,
      'promised': prompt_tokens
    },
    {'counter': 'vllm:prefix_cache_hits', 'events': case when is_first then work_hit_tokens else 0 end, 'promised': hit},
    {
      'counter': 'vllm:external_prefix_cache_queries',
      'events': case when is_first then prompt_tokens - hit else 0 end,
      'promised': prompt_tokens - hit
    },
    {
      'counter': 'vllm:external_prefix_cache_hits',
      'events': case when is_first then work_restored_tokens else 0 end,
      'promised': offered
    }
  ]) as what
  from lookups
  where is_read
  union all by name
  select *, first_token_ns as at_ns, false as is_first, unnest([
    {'counter': 'vllm:prompt_tokens', 'events': prompt_tokens, 'promised': prompt_tokens},
    {
      'counter': 'vllm:prompt_tokens_by_source{local_compute}',
      'events': work_computed_tokens,
      'promised': prompt_tokens - promised_hit_tokens - promised_restored_tokens
    },
    {'counter': 'vllm:prompt_tokens_by_source{local_cache_hit}', 'events': work_hit_tokens, 'promised': promised_hit_tokens},
    {
      'counter': 'vllm:prompt_tokens_by_source{external_kv_transfer}',
      'events': work_restored_tokens,
      'promised': promised_restored_tokens
    },
    {
      'counter': 'vllm:prompt_tokens_cached',
      'events': work_hit_tokens + work_restored_tokens,
      'promised': promised_hit_tokens + promised_restored_tokens
    }
  ]) as what
  from _counted_turns
  where first_token_ns is not null
  union all by name
  select *, end_ns as at_ns, false as is_first, {'counter': 'vllm:request_success', 'events': 1, 'promised': 1} as what
  from _counted_turns
  where status in ('stop', 'length')
)
select
  engine,
  replica,
  run,
  what.counter,
  at_ns,
  turn_id,
  complete,
  what.events,
  what.promised,
  case when what.counter = 'vllm:prefix_cache_hits' and is_first then coalesce(self_recovered_tokens, 0) else 0 end as self_recovered,
  known_difference
from counts;
