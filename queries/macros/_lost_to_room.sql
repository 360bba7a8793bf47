-- What the turns of a range lost because their prefix was evicted for want of slots or memory, of one engine start: by the rules of
-- _lost_spans.
--
-- Example: from _lost_to_room('ring0', null, null, null, '5f0c')
--
-- columns
--   lost_seconds DOUBLE -- seconds to first token; null where nothing of it is known [s]
create or replace macro _lost_to_room(the_engine, the_run, since, until, resource) as table
select sum(l.seconds) as lost_seconds
from _verdicts_in(the_engine, the_run, since, until) as t
join _lost_spans as l on l.trace_id = t.trace_id and l.turn_span_id = t.span_id and l.turn_start_ns = t.start_ns
where t.resource_id = resource and l.cause in ('evicted.slots', 'evicted.memory');
