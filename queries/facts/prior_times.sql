-- From when on the turns before these have to be looked for, in their conversations.
select min(case when t.last_ns < o.start_ns then t.last_ns else t.first_ns end)
from _own as o
join _conversation_times as t using (resource_id, conversation_id)
where o.name = 'turn' and t.first_ns <= o.start_ns;
