-- Evictions for want of slots while most of the memory was free, by the conversation that needed the room
select t.conversation_id, count(*) as evictions, sum(e.tokens) as tokens
from evictions as e
join turns as t on t.turn_id = e.for_turn and t.resource_id = e.resource_id
where e.reason = 'slots' and e.free_tokens > e.total_tokens / 2
group by t.conversation_id
order by evictions desc;
