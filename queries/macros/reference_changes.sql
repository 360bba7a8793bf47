-- What happened to an engine start's device cache besides lookups: publishes, leases, and evictions that no larger cache would have
-- spared (resets, requests, ends of leases), in order.
--
-- Example: from reference_changes('5f0c3d', 9_000_000_000_000_000_000)
--
-- columns
--   kind VARCHAR -- publish, not_published (it was skipped, cancelled or failed), reset (of everything), evict or lease
--   at_ns BIGINT -- when it was done; of a lease its end [ns]
--   began_ns BIGINT -- when it began [ns]
--   sequence BIGINT -- order among admissions, publishes and evictions of equal times
--   trace_id VARCHAR -- trace of the turn that published
--   turn_id VARCHAR -- the turn that published
--   reason VARCHAR -- why it was evicted, or how a lease ended
--   keys VARCHAR[] -- keys concerned, in order of depth
--   parent_key VARCHAR -- the key above the first of keys
--   key_tokens BIGINT -- position at which a whole snapshot ends [tokens]
--   tokens_each BIGINT -- tokens per key, where keys are blocks [tokens]
create or replace macro reference_changes(resource, until) as table
select
  case
    when name = 'snapshot.evict' and reason = 'reset' then 'reset'
    when name = 'snapshot.evict' then 'evict'
    when name = 'snapshot.lease' then 'lease'
    when outcome = 'committed' then 'publish'
    else 'not_published'
  end as kind,
  end_ns as at_ns,
  start_ns as began_ns,
  sequence,
  trace_id,
  turn_id,
  reason,
  coalesce(keys, [key]) as keys,
  parent_key,
  key_tokens,
  tokens_each
from spans
where resource_id = resource
  and end_ns < until
  and key is not null
  and (
    (name = 'snapshot.publish' and tier = 'device')
    or (name = 'snapshot.evict' and tier = 'device' and reason not in ('slots', 'memory', 'slot_reassigned'))
    or name = 'snapshot.lease'
  )
order by at_ns, sequence, span_id;
