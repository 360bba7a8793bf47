-- The columns of one table or view of a store, with their comments.
--
-- Example: from list_columns('turns')
--
-- columns
--   name VARCHAR -- of the column
--   type VARCHAR -- its type
--   brief VARCHAR -- what it means
create or replace macro list_columns(object) as table
select column_name as name, data_type as type, comment as brief
from duckdb_columns()
where database_name = current_database() and table_name = object
order by column_index;
