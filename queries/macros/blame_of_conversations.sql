-- Who evicted whom from the device in a range: one row a pair of conversations of one engine start, the costliest first,
-- or those with the most of ``by_what``. The rows
-- add up to all evictions of the range; where nobody needed the room (a lease ran out, a request asked for it), the evictor is
-- null, and where the publish is not in the store, the victim. A turn that lost to several pairs counts in each.
--
-- Example: agent-1 took agent-3's slot twice; agent-3 came back, recomputed 9,000 tokens and lost 4 s:
-- from blame_of_conversations('ring0', null, null, null, 20)
--
--   evictor_conversation  victim_conversation  evictions  tokens_evicted  losing_turns  recomputed_tokens  lost_seconds
--   agent-1               agent-3              2          9000            1             9000               4.0
--
-- columns
--   evictor_conversation VARCHAR -- the conversation that needed the room
--   victim_conversation VARCHAR -- the conversation that lost its prefix
--   evictions BIGINT -- how many
--   slot_evictions BIGINT -- those for slots
--   memory_evictions BIGINT -- those for memory
--   tokens_evicted BIGINT -- tokens that went; 0 where snapshots were only compacted [tokens]
--   losing_turns BIGINT -- complete turns that came back for what had gone, in the range or later, of whatever conversation
--   recomputed_tokens BIGINT -- computed again because of it [tokens]
--   restored_tokens BIGINT -- restored from another tier because of it [tokens]
--   lost_seconds DOUBLE -- their lost seconds, shared out by tokens; null where none is known, 0 where nobody came back [s]
--   unpriced_turns BIGINT -- losing turns whose loss in seconds is not known; it is in no sum
--   evictor_tenant VARCHAR -- on whose behalf
--   victim_tenant VARCHAR -- on whose behalf
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range
--   resource_id VARCHAR -- the engine start
--   of_pairs BIGINT -- pairs there are, shown or not
--   of_evictions BIGINT -- evictions of all pairs
--   of_lost_seconds DOUBLE -- lost seconds of all pairs; null where none is known, 0 where nobody came back [s]
create or replace macro blame_of_conversations(the_engine, the_run, since, until, most, the_start := null, by_what := null) as table
select
  evictor_conversation,
  victim_conversation,
  count(*) as evictions,
  count(*) filter (reason = 'slots') as slot_evictions,
  count(*) filter (reason = 'memory') as memory_evictions,
  coalesce(sum(tokens), 0)::bigint as tokens_evicted,
  coalesce(len(list_distinct(flatten(list(losing_turns)))), 0) as losing_turns,
  coalesce(sum(recomputed_tokens), 0)::bigint as recomputed_tokens,
  coalesce(sum(restored_tokens), 0)::bigint as restored_tokens,
  case when count(losing_turns) = 0 then 0 else sum(lost_seconds) end as lost_seconds,
  coalesce(len(list_distinct(flatten(list(unpriced_turns)))), 0) as unpriced_turns,
  evictor_tenant,
  victim_tenant,
  engine,
  replica,
  runs,
  resource_id,
  count(*) over () as of_pairs,
  (sum(count(*)) over ())::bigint as of_evictions,
  case when sum(count(losing_turns)) over () = 0 then 0 else sum(sum(lost_seconds)) over () end as of_lost_seconds
from _blame(the_engine, the_run, since, until)
where the_start is null or resource_id = the_start
group by evictor_conversation, victim_conversation, evictor_tenant, victim_tenant, engine, replica, runs, resource_id
order by
  case coalesce(by_what, 'lost_seconds')
    when 'lost_seconds' then 0
    when 'evictions' then count(*)
    when 'tokens_evicted' then coalesce(sum(tokens), 0)
    else error('Pairs are not ordered by ' || by_what || ': lost_seconds, evictions or tokens_evicted.')
  end desc,
  coalesce(sum(lost_seconds), 0) desc,
  coalesce(sum(recomputed_tokens), 0) + coalesce(sum(restored_tokens), 0) desc,
  evictions desc,
  evictor_conversation,
  victim_conversation,
  resource_id
limit most;
