-- Keys of which nothing decisive was found near: they are looked for further back. Where the engine uses other tiers, all are.
create or replace temporary table _looking as
select n.resource_id, n.key, min(n.low_ns) as low_ns, max(least(n.admitted_ns + 3_600_000_000_000, getvariable('facts_near'))) as high_ns
from _needed as n
where n.low_ns < getvariable('facts_near')
  and (
    n.resource_id in (select resource_id from _other_tiers)
    or not exists (
      from _found as f
      where f.decisive and f.resource_id = n.resource_id and f.key = n.key and f.end_ns <= n.first_ns
    )
  )
group by all;
