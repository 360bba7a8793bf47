-- The turn that the demo explains in full: the one that lost most seconds to an eviction for want of slots.
--
-- Example: from demo_choice()
create or replace macro demo_choice() as table
select t.turn_id
from turns as t
left join turn_costs as c using (trace_id, span_id)
order by t.main_cause is not distinct from 'evicted.slots' desc, c.lost_seconds desc nulls last, t.recomputed_tokens desc nulls last
limit 1;
