-- One row a complete turn whose times say otherwise than its events. Two rules, each against at least five other such turns of the
-- same engine start, and only of 1,024 tokens and more: tokens are said to be computed 20 times as fast as the median turn computes
-- them (a counter that is stuck: they were in the cache); or restored in no time, or 20 times as fast as the median restore (they
-- were there already, or belong to somebody else).
--
-- Example: 40,000 tokens are said to be computed in 0.2 s; the median turn computes 2,700 a second:
--
--   cause                       said
--   engine_fault.counter_stuck  40,000 tokens computed in 0.200 s; others take 14.815 s for as many
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   cause VARCHAR -- engine_fault.counter_stuck or engine_fault.foreign_restore
--   said VARCHAR -- both sides
create or replace view _contradictions as
with measured as (
  select
    trace_id,
    span_id,
    resource_id,
    computed_tokens,
    compute_ns / 1e9 as compute_seconds,
    restored_tokens,
    restore_ns / 1e9 as restore_seconds
  from _turn_spans
  where complete and ttft_ns is not null and (computed_tokens >= 1024 or restored_tokens >= 1024)
),
usual as (
  select
    resource_id,
    count(*) filter (computed_tokens >= 1024) as computing,
    median(compute_seconds / computed_tokens) filter (computed_tokens >= 1024) as computed_each,
    count(*) filter (restored_tokens >= 1024) as restoring,
    median(restore_seconds / restored_tokens) filter (restored_tokens >= 1024) as restored_each
  from measured
  group by resource_id
),
judged as (
  select
    m.*,
    u.computed_each * m.computed_tokens as computed_usually,
    u.restored_each * m.restored_tokens as restored_usually,
    m.computed_tokens >= 1024 and u.computing > 5 and 20 * m.compute_seconds < u.computed_each * m.computed_tokens as stuck,
    m.restored_tokens >= 1024 and u.restoring > 5 and 20 * m.restore_seconds < u.restored_each * m.restored_tokens as foreign_restore
  from measured as m
  join usual as u using (resource_id)
)
select
  trace_id,
  span_id,
  case when stuck then 'engine_fault.counter_stuck' else 'engine_fault.foreign_restore' end as cause,
  case
    when stuck
      then format('{:,} tokens computed in {:.3f} s; others take {:.3f} s for as many', computed_tokens, compute_seconds, computed_usually)
    else format('{:,} tokens restored in {:.3f} s; others take {:.3f} s for as many', restored_tokens, restore_seconds, restored_usually)
  end as said
from judged
where stuck or foreign_restore;
