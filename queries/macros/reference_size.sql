-- How much a replay of an engine start up to a time would have to read.
--
-- Example: from reference_size('5f0c3d', 9_000_000_000_000_000_000)
--
-- columns
--   events BIGINT -- turns and publishes that ended before that time
create or replace macro reference_size(resource, until) as table
select count(*) as events
from spans
where resource_id = resource and end_ns < until and name in ('turn', 'snapshot.publish');
