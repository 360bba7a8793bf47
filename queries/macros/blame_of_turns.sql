-- Who evicted whom from the device in a range, turn by turn: one row a turn that needed room and a turn that had published what
-- went, the costliest first, at most ``most``. The same figures as in blame_of_conversations, by the same rules.
--
-- Example: from blame_of_turns('ring0', null, null, null, 20)
--
-- columns
--   evictor_turn VARCHAR -- the turn that needed the room; null where none did
--   victim_turn VARCHAR -- the turn that had published what went; null where its publish is not in the store
--   evicted_at TIMESTAMP_NS -- the first of these evictions, UTC
--   evictions BIGINT -- how many
--   slot_evictions BIGINT -- those for slots
--   memory_evictions BIGINT -- those for memory
--   tokens_evicted BIGINT -- tokens that went; 0 where snapshots were only compacted [tokens]
--   losing_turns BIGINT -- complete turns that came back for what had gone, in the range or later
--   recomputed_tokens BIGINT -- computed again because of it [tokens]
--   restored_tokens BIGINT -- restored from another tier because of it [tokens]
--   lost_seconds DOUBLE -- their lost seconds, shared out by tokens; null where none is known, 0 where nobody came back [s]
--   unpriced_turns BIGINT -- losing turns whose loss in seconds is not known; it is in no sum
--   evictor_conversation VARCHAR -- conversation of the turn that needed the room
--   victim_conversation VARCHAR -- conversation of the turn that had published
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the engine start
--   of_pairs BIGINT -- pairs there are, shown or not
--   of_evictions BIGINT -- evictions of all pairs
--   of_lost_seconds DOUBLE -- lost seconds of all pairs; null where none is known, 0 where nobody came back [s]
create or replace macro blame_of_turns(the_engine, the_run, since, until, most) as table
select
  evictor_turn,
  victim_turn,
  make_timestamp_ns(min(at_ns)) as evicted_at,
  count(*) as evictions,
  count(*) filter (reason = 'slots') as slot_evictions,
  count(*) filter (reason = 'memory') as memory_evictions,
  coalesce(sum(tokens), 0)::bigint as tokens_evicted,
  coalesce(len(list_distinct(flatten(list(losing_turns)))), 0) as losing_turns,
  coalesce(sum(recomputed_tokens), 0)::bigint as recomputed_tokens,
  coalesce(sum(restored_tokens), 0)::bigint as restored_tokens,
  case when count(losing_turns) = 0 then 0 else sum(lost_seconds) end as lost_seconds,
  coalesce(len(list_distinct(flatten(list(unpriced_turns)))), 0) as unpriced_turns,
  evictor_conversation,
  victim_conversation,
  engine,
  replica,
  resource_id,
  count(*) over () as of_pairs,
  (sum(count(*)) over ())::bigint as of_evictions,
  case when sum(count(losing_turns)) over () = 0 then 0 else sum(sum(lost_seconds)) over () end as of_lost_seconds
from _blame(the_engine, the_run, since, until)
group by evictor_turn, victim_turn, evictor_conversation, victim_conversation, engine, replica, resource_id
order by
  coalesce(sum(lost_seconds), 0) desc,
  coalesce(sum(recomputed_tokens), 0) + coalesce(sum(restored_tokens), 0) desc,
  evictions desc,
  evicted_at,
  evictor_turn,
  victim_turn,
  resource_id
limit most;
