-- One row a turn that was preempted: the last preemption of an attempt before its first token.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   span_id VARCHAR -- prefill of the attempt that ended
--   at_ns BIGINT -- when it was preempted [ns]
--   by_turn VARCHAR -- the turn that needed the room; null where the engine did not say
create or replace view _preemptions as
select trace_id, parent_span_id as turn_span_id, span_id, end_ns as at_ns, preempted_by as by_turn
from spans
where name = 'prefill' and outcome = 'preempted'
qualify row_number() over (partition by trace_id, parent_span_id order by end_ns desc, attempt desc) = 1;
