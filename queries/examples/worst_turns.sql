-- The turns that lost the most against a hit of their conversation
select t.turn_id, t.conversation_id, t.verdict, t.main_cause, c.lost_seconds, t.ttft_seconds, t.started_at
from turn_costs as c
join turns as t using (trace_id, span_id)
where c.lost_seconds is not null
order by c.lost_seconds desc
limit 50;
