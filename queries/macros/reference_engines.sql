-- Engine starts whose reference stream can be replayed, those with the most turns first: what each engine had, and when it ran. With a
-- conversation those that served it.
--
-- Example: from reference_engines()
--
-- columns
--   resource_id VARCHAR -- the engine start
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR[] -- labels of the experiments it served
--   slots BIGINT -- snapshot slots it had; null for an engine of blocks
--   pool_tokens BIGINT -- KV tokens that fitted
--   unit_tokens BIGINT -- prefixes match in multiples of it [tokens]
--   policy VARCHAR -- its eviction policy
--   turns BIGINT -- turns that ended
--   first_ns BIGINT -- arrival of the first [ns]
--   last_ns BIGINT -- arrival of the last [ns]
create or replace macro reference_engines(the_conversation := null) as table
select
  r.resource_id,
  r.engine,
  r.replica,
  coalesce(list_sort(list(distinct t.run) filter (t.run is not null)), []) as runs,
  r.engine_slots as slots,
  r.pool_tokens,
  r.unit_tokens,
  r.engine_policy as policy,
  count(*) as turns,
  min(t.start_ns) as first_ns,
  max(t.start_ns) as last_ns
from _turn_facts as t
join resources as r using (resource_id)
where t.end_ns is not null
  and (the_conversation is null or t.resource_id in (select resource_id from _turn_facts where conversation_id = the_conversation))
group by all
order by turns desc, first_ns, resource_id;
