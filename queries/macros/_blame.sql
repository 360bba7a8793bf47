-- Every eviction of a range with what it cost later, summed over the turns that lost by it: what the answers on blame group.
--
-- Example: from _blame('ring0', null, null, null)
--
-- columns are those of _evictions_in, and
--   losing_turns VARCHAR[] -- spans of the turns that lost by it; null where nobody came back for what went
--   recomputed_tokens BIGINT -- computed again because of it [tokens]
--   restored_tokens BIGINT -- restored from another tier because of it [tokens]
--   lost_seconds DOUBLE -- its part of what these turns lost; null where that is not known [s]
--   unpriced_turns VARCHAR[] -- those of losing_turns whose loss in seconds is not known
create or replace macro _blame(the_engine, the_run, since, until) as table
with losses as (
  select
    resource_id,
    span_id,
    list(turn_span_id) as losing_turns,
    sum(recomputed_tokens)::bigint as recomputed_tokens,
    sum(restored_tokens)::bigint as restored_tokens,
    sum(lost_seconds) as lost_seconds,
    list(turn_span_id) filter (not priced) as unpriced_turns
  from _losses_of_evictions(the_engine, the_run, since, until)
  group by all
)
select e.*, l.losing_turns, l.recomputed_tokens, l.restored_tokens, l.lost_seconds, l.unpriced_turns
from _evictions_in(the_engine, the_run, since, until) as e
left join losses as l using (resource_id, span_id);
