-- Which of the arriving spans the store has already. A retried span starts when it started before, so the arriving starts bound
-- the search; the store has no index on ids (ART indexes are large and slow the inserts). :low and :high bound one cluster of
-- starts.
select spans.trace_id, spans.span_id
from spans
semi join arriving using (trace_id, span_id)
where spans.start_ns between $low and $high;
