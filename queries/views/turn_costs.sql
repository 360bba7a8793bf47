-- One row a complete turn that was not a hit: seconds to the first token that it lost against the hit turns of its own
-- conversation. Waiting in the queue is left out on both sides: it is not the cache's doing.
--
-- Example: a turn took 9.8 s and 0.2 s more in the queue, the 14 hit turns of its conversation take 0.9 s (median): 8.9 s lost.
--
-- columns
--   turn_id VARCHAR -- the turn
--   ttft_seconds DOUBLE -- its time to first token [s]
--   hit_turns BIGINT -- hit turns of the conversation that it is compared with
--   served_seconds DOUBLE -- its time to first token without the queue [s]
--   hit_median_seconds DOUBLE -- the same of the hit turns, median [s]
--   lost_seconds DOUBLE -- the difference, at least 0; null where there is nothing to compare with [s]
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
create or replace view turn_costs as
with hits as (
  select resource_id, conversation_id, count(*) as hit_turns, median((ttft_ns - coalesce(queue_ns, 0)) / 1e9) as hit_median_seconds
  from _turn_verdicts
  where verdict = 'hit' and ttft_ns is not null and conversation_id is not null
  group by all
)
select
  t.turn_id,
  t.ttft_ns / 1e9 as ttft_seconds,
  coalesce(h.hit_turns, 0) as hit_turns,
  (t.ttft_ns - coalesce(t.queue_ns, 0)) / 1e9 as served_seconds,
  h.hit_median_seconds,
  -- greatest() passes over nulls, and an unknown loss must not become 0.
  case
    when t.ttft_ns is not null and h.hit_median_seconds is not null
      then greatest((t.ttft_ns - coalesce(t.queue_ns, 0)) / 1e9 - h.hit_median_seconds, 0)
  end as lost_seconds,
  t.trace_id,
  t.span_id
from _turn_verdicts as t
left join hits as h using (resource_id, conversation_id)
where t.verdict not in ('hit', 'incomplete');
