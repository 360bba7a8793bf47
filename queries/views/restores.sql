-- One row a restore: a snapshot's KV brought back from another tier, or left there (skipped).
--
-- Example: 768 tokens were offered behind a hit of 256, and loaded all:
--
--   turn_id  tier  tokens  valid_prefix_tokens  outcome   seconds
--   a-2      host  768     1024                 verified  0.12
--
-- columns
--   turn_id VARCHAR -- the turn that it was for
--   started_at TIMESTAMP_NS -- when it began, UTC
--   seconds DOUBLE -- how long it took [s]
--   tier VARCHAR -- from which tier
--   tokens BIGINT -- requested; of a skipped one, what that tier had beyond the device [tokens]
--   valid_prefix_tokens BIGINT -- absolute prefix that was usable at the end [tokens]
--   ranks BIGINT -- workers that had to hold it
--   outcome VARCHAR -- verified, failed, cancelled, timed_out, stale or skipped
--   reason VARCHAR -- why it did not succeed, or was skipped, as the engine said
--   attempt BIGINT -- attempt of the turn
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   span_id VARCHAR -- span of the restore
--   start_ns BIGINT -- when it began [ns]
create or replace view restores as
select
  turn_id,
  make_timestamp_ns(start_ns) as started_at,
  (end_ns - start_ns) / 1e9 as seconds,
  tier,
  tokens,
  valid_prefix_tokens,
  ranks,
  outcome,
  reason,
  attempt,
  trace_id,
  parent_span_id as turn_span_id,
  span_id,
  start_ns
from spans
where name = 'snapshot.restore';
