-- The turns of an engine start as references to its cache, in the order of their admission: which prefix each asked for, and what
-- it found. A turn's keys are those that had not been seen before; the ones above them are those of earlier turns.
--
-- Example: from reference_turns('5f0c3d', 9_000_000_000_000_000_000)
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   turn_id VARCHAR -- readable id
--   conversation_id VARCHAR -- conversation that the turn grows
--   run VARCHAR -- label of the experiment
--   status VARCHAR -- how it ended
--   complete BOOLEAN -- every prompt position was observed without contradiction
--   reads_cache BOOLEAN -- the cache was not disabled for it
--   admitted_ns BIGINT -- the admission that its coverage stands on; null where it was never admitted [ns]
--   sequence BIGINT -- order among admissions, publishes and evictions of equal times
--   first_token_ns BIGINT -- first token; null where none came [ns]
--   end_ns BIGINT -- finish [ns]
--   attempts BIGINT -- accepted admissions
--   prompt_tokens BIGINT -- P [tokens]
--   output_tokens BIGINT -- generated [tokens]
--   seen_tokens BIGINT -- S [tokens]
--   seen_basis VARCHAR -- how S was found; only keys can be replayed
--   found_tokens BIGINT -- prefix that the admission found on the device, leases included [tokens]
--   local_tokens BIGINT -- prefix usable on the device, whether it was used or not [tokens]
--   hit_tokens BIGINT -- coverage [tokens]
--   computed_tokens BIGINT -- coverage [tokens]
--   compute_ns BIGINT -- time to the first token less frontend, queue and restores [ns]
--   key VARCHAR -- deepest prefix key of the prompt
--   key_tokens BIGINT -- position at which it ends [tokens]
--   parent_key VARCHAR -- the key above the first of keys
--   keys VARCHAR[] -- keys not seen before, in order of depth
--   keys_end_tokens BIGINT[] -- where each of them ends, unless tokens_each says [tokens]
--   tokens_each BIGINT -- spacing of the keys [tokens]
--   keys_omitted BIGINT -- keys left out because the list was too long
create or replace macro reference_turns(resource, until) as table
with ended as (
  from spans
  where name = 'turn' and turn_id is not null and resource_id = resource and start_ns < until
),
admitted as (
  select
    a.trace_id,
    a.parent_span_id as span_id,
    a.end_ns as admitted_ns,
    a.sequence,
    a.admit_hit_tokens + a.admit_lease_tokens as found_tokens,
    a.admit_local_tokens as local_tokens
  from spans as a
  join ended as t on t.trace_id = a.trace_id and t.span_id = a.parent_span_id
  where a.name = 'scheduler.admit'
    and a.resource_id = resource
    and (t.ttft_ns is null or a.end_ns <= t.start_ns + t.ttft_ns)
  qualify row_number() over (partition by a.trace_id, a.parent_span_id order by a.end_ns desc, a.attempt desc) = 1
)
select
  t.trace_id,
  t.span_id,
  t.turn_id,
  t.conversation_id,
  t.run,
  t.status,
  coalesce(t.complete, false) as complete,
  t.cache_disabled is null as reads_cache,
  a.admitted_ns,
  a.sequence,
  t.start_ns + t.ttft_ns as first_token_ns,
  t.end_ns,
  t.attempts,
  t.prompt_tokens,
  t.output_tokens,
  t.seen_tokens,
  t.seen_basis,
  a.found_tokens,
  a.local_tokens,
  t.hit_tokens,
  t.computed_tokens,
  t.compute_ns,
  t.key,
  t.key_tokens,
  t.parent_key,
  t.keys,
  t.keys_end_tokens,
  t.tokens_each,
  t.keys_omitted
from ended as t
left join admitted as a using (trace_id, span_id)
order by coalesce(a.admitted_ns, t.start_ns), a.sequence, t.span_id;
