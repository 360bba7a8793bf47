-- Turns in whose traces somebody counted tokens.
insert into _dirty
select f.trace_id, f.span_id, f.start_ns
from _turn_facts as f
where (f.end_ns >= getvariable('facts_low') - 3_600_000_000_000 or f.end_ns is null)
  and f.trace_digest in (select md5_number_lower(trace_id) from _arrived where is_usage)
  and f.trace_id in (select trace_id from _arrived where is_usage);
