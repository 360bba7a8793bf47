-- What can be compared, in the order of their beginnings: one row a run, version or engine that served turns, whichever ``names_of`` asks for; with null one row for all.
--
-- Example: from compare_choices('version', null, null)
--
-- columns
--   name VARCHAR -- the run, the version or the engine
--   turns BIGINT -- its turns, incomplete ones included
--   first_ns BIGINT -- arrival of the first [ns]
--   last_ns BIGINT -- arrival of the last [ns]
create or replace macro compare_choices(names_of, the_engine, the_run) as table
with named as (
  select case names_of when 'run' then t.run when 'version' then r.engine_version when 'engine' then r.engine end as name, t.start_ns
  from _turn_facts as t
  left join resources as r using (resource_id)
  where (the_engine is null or r.engine = the_engine) and (the_run is null or t.run = the_run)
)
select name, count(*) as turns, min(start_ns) as first_ns, max(start_ns) as last_ns
from named
where names_of is null or name is not null
group by name
order by first_ns, name;
