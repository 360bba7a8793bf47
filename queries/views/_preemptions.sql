-- One row a turn that was preempted: the last preemption of an attempt before its first token.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   span_id VARCHAR -- prefill of the attempt that ended
--   at_ns BIGINT -- when it was preempted [ns]
--   by_turn VARCHAR -- the turn that needed the room; null where the engine did not say
create or replace view _preemptions as
select s.trace_id, s.parent_span_id as turn_span_id, s.span_id, s.end_ns as at_ns, s.preempted_by as by_turn
from spans as s
left join spans as turn on turn.name = 'turn' and turn.trace_id = s.trace_id and turn.span_id = s.parent_span_id
where s.name = 'prefill'
  and s.outcome = 'preempted'
  and (turn.ttft_ns is null or s.end_ns <= turn.start_ns + turn.ttft_ns)
qualify row_number() over (partition by s.trace_id, s.parent_span_id order by s.end_ns desc, s.attempt desc, s.span_id desc) = 1;
