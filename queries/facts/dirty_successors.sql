-- Turns whose conversation's turn before them has come, or published something of its answer.
insert into _dirty
with before as (
  select distinct resource_id, run, conversation_id, start_ns
  from _arrived
  where name = 'turn' and turn_id is not null and conversation_id is not null
  union
  select f.resource_id, f.run, f.conversation_id, f.start_ns
  from _turn_facts as f
  where f.end_ns >= getvariable('facts_low') - 3_600_000_000_000
    and f.conversation_id is not null
    and (f.trace_id, f.turn_id) in (
      select (trace_id, turn_id) from _arrived where name = 'snapshot.publish' and key_tokens is not null and turn_id is not null
    )
),
after as (
  select f.resource_id, f.run, f.conversation_id, f.trace_id, f.span_id, f.start_ns
  from _turn_facts as f
  where f.start_ns >= (select min(start_ns) from before)
    and f.conversation_digest in (select md5_number_lower(conversation_id) from before)
),
next as (
  select b.resource_id, b.run, b.conversation_id, b.start_ns, min(a.start_ns) filter (a.start_ns > b.start_ns) as next_ns
  from before as b
  join after as a on a.resource_id = b.resource_id and a.conversation_id = b.conversation_id and a.run is not distinct from b.run
  group by all
)
select a.trace_id, a.span_id, a.start_ns
from after as a
join next as n
  on n.resource_id = a.resource_id
  and n.conversation_id = a.conversation_id
  and n.run is not distinct from a.run
  and a.start_ns in (n.start_ns, n.next_ns);
