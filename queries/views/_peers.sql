-- One row an engine start and an engine start of another replica of the same engine. Which of them was up when, and for which run, table
-- _heard tells: what a replica held that is gone since helps nobody, and the arms of a comparison each have replicas of their own.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   peer_id VARCHAR -- the other replica's engine start
--   replica VARCHAR -- which replica that is
create or replace view _peers as
select a.resource_id, b.resource_id as peer_id, b.replica
from resources as a
join resources as b on b.engine = a.engine and b.replica <> a.replica;
