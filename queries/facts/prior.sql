-- The turns before these in their conversations, known from before or just come, with the time in which they may have published.
create or replace temporary table _prior as
with own as (
  select distinct resource_id, run, conversation_id, start_ns
  from _own
  where name = 'turn' and conversation_id is not null
),
every as (
  select resource_id, run, conversation_id, trace_id, span_id, start_ns, end_ns
  from _turn_facts
  where start_ns >= getvariable('facts_low_prior')
    and end_ns is not null
    and conversation_digest in (select md5_number_lower(conversation_id) from own)
  union
  select resource_id, run, conversation_id, trace_id, span_id, start_ns, end_ns
  from _own
  where name = 'turn' and conversation_id is not null
),
times as (
  select o.resource_id, o.run, o.conversation_id, o.start_ns, max(e.start_ns) filter (e.start_ns < o.start_ns) as prior_ns
  from own as o
  join every as e on e.resource_id = o.resource_id and e.conversation_id = o.conversation_id and e.run is not distinct from o.run
  group by all
)
select distinct e.trace_id, e.span_id, e.start_ns, coalesce(e.end_ns, e.start_ns) + 3_600_000_000_000 as until_ns
from every as e
join times as t
  on t.resource_id = e.resource_id
  and t.conversation_id = e.conversation_id
  and t.run is not distinct from e.run
  and e.start_ns in (t.start_ns, t.prior_ns);
