-- The turn that the demo explains in full: of those that lost most of their prefix to evictions for want of slots while at least
-- half of the memory was free, the one that lost most seconds.
--
-- Example: from demo_choice()
--
-- columns
--   turn_id VARCHAR -- the turn
create or replace macro demo_choice() as table
with lost as (
  select c.trace_id, c.turn_span_id as span_id, sum(c.end_token - c.start_token) as tokens
  from causes as c
  join evictions as e on e.span_id = c.evict_span_id and e.resource_id = c.resource_id
  where c.cause = 'evicted.slots' and c.source = 'recomputed' and e.free_tokens > e.total_tokens / 2
  group by all
)
select t.turn_id
from turns as t
left join lost using (trace_id, span_id)
left join turn_costs as cost using (trace_id, span_id)
order by coalesce(lost.tokens > t.recomputed_tokens / 2, false) desc, cost.lost_seconds desc nulls last, t.start_ns
limit 1;
