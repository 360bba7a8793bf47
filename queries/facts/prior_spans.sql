-- The places of those turns and of what they published.
insert into _wanted
select rowid, start_ns
from spans
where ({windows})
  and name in ('turn', 'snapshot.publish')
  and (
    (name = 'turn' and (trace_id, span_id) in (select (trace_id, span_id) from _prior))
    or (name = 'snapshot.publish' and key_tokens is not null and trace_id in (select trace_id from _prior))
  );
