-- One row: how many conversations the turns of a range belong to, and on how many pages they are.
--
-- Example: from conversation_totals(null, null, null, null, 10)
--
-- columns
--   conversations BIGINT -- how many
--   pages BIGINT -- pages that they fill, at least 1
create or replace macro conversation_totals(
  the_engine, the_run, since, until, rows_each,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select count(*) as conversations, greatest(ceil(count(*) / rows_each)::bigint, 1) as pages
from (
  select distinct conversation_id, resource_id
  from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
  where conversation_id is not null
);
