-- What was said of these turns before. One that had not ended may have begun at another time.
create or replace temporary table _stale as
from _turn_facts
where (start_ns >= getvariable('facts_low_dirty') - 3_600_000_000_000 or end_ns is null or start_ns is null)
  and trace_digest in (select md5_number_lower(trace_id) from _dirty)
  and (trace_id, span_id) in (select (trace_id, span_id) from _dirty);
