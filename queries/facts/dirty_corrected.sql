-- Turns that are corrected long after their end.
insert into _dirty
select f.trace_id, f.span_id, f.start_ns
from _turn_facts as f
where f.trace_digest in (select md5_number_lower(trace_id) from _arrived where name = 'turn.correction')
  and exists (
    from _arrived as a
    where a.name = 'turn.correction' and a.trace_id = f.trace_id and a.parent_span_id = f.span_id
  );
