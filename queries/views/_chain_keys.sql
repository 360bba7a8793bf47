-- One row a key of a turn's own part of its chain: the key above its new ones at depth 0, then these. Above stands the part of the
-- turn for which the key of depth 0 was new, and so on.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   start_ns BIGINT -- arrival of the turn [ns]
--   key VARCHAR -- the prefix key
--   depth BIGINT -- its place in the part
create or replace view _chain_keys as
select resource_id, trace_id, span_id, start_ns, unnest(keys) as key, unnest(range(1, len(keys) + 1)) as depth
from _keyed_turns
union all
select resource_id, trace_id, span_id, start_ns, parent_key, 0::bigint
from _keyed_turns
where parent_key is not null;
