-- The same for spans that have no start time.
select spans.trace_id, spans.span_id
from spans
semi join arriving using (trace_id, span_id)
where spans.start_ns is null;
