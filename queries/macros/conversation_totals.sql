-- One row: how many conversations an engine (null: any) has, and on how many pages.
--
-- Example: from conversation_totals(null, 10)
--
-- columns
--   conversations BIGINT -- how many
--   pages BIGINT -- pages that they fill, at least 1
create or replace macro conversation_totals(the_engine, rows_each) as table
select count(*) as conversations, greatest(ceil(count(*) / rows_each)::bigint, 1) as pages
from (
  select distinct t.conversation_id, t.resource_id
  from _turn_facts as t
  left join resources as r using (resource_id)
  where t.conversation_id is not null and (the_engine is null or r.engine = the_engine)
);
