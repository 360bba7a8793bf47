-- What a store has to ask: its tables, views and table macros, private ones left out.
--
-- Example: from list_objects()
--
-- columns
--   name VARCHAR -- of the object
--   kind VARCHAR -- table, view or macro
--   what VARCHAR -- what one row is
create or replace macro list_objects() as table
select name, kind, what
from (
  select table_name as name, 'table' as kind, comment as what, 1 as place
  from duckdb_tables()
  where database_name = current_database() and not internal
  union all
  select view_name, 'view', comment, 2
  from duckdb_views()
  where database_name = current_database() and not internal
  union all
  select distinct function_name, 'macro', comment, 3
  from duckdb_functions()
  where database_name = current_database() and function_type = 'table_macro' and not internal
) as objects
where not starts_with(name, '_')
order by place, name;
