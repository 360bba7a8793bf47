-- Each of them once. A turn without a time is looked for everywhere.
create or replace temporary table _dirty as
select trace_id, span_id, coalesce(min(start_ns), 0) as start_ns
from _dirty
group by all;
