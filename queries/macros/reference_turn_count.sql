-- How many turns of an engine start a replay up to a time would at least have to read: quick, to tell whether that takes too long.
--
-- Example: from reference_turn_count('5f0c3d', 9_000_000_000_000_000_000)
--
-- columns
--   turns BIGINT -- turns that arrived before that time
--   policy VARCHAR -- the engine's eviction policy
create or replace macro reference_turn_count(resource, until) as table
select
  (select count(*) from _turn_facts where resource_id = resource and start_ns < until) as turns,
  (select any_value(engine_policy) from resources where resource_id = resource) as policy;
