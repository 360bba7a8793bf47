-- One row an engine, an interval of ``seconds`` and a usage field: the sum over the turns that ended in it and whose usage was recorded,
-- and what the events say of the same turns. A request's cached tokens are compared with its coverage.
--
-- Example: from _usage_sums(null, null, null, null, 60)
create or replace macro _usage_sums(the_engine, the_run, since, until, seconds) as table
with fields as (
  select
    t.*,
    t.end_ns // (seconds * 1e9)::bigint as number,
    unnest([
      {'counter': 'usage:input_tokens', 'counted': u.input_tokens, 'events': t.prompt_tokens, 'promised': t.prompt_tokens},
      {
        'counter': 'usage:cached_tokens',
        'counted': u.cached_tokens,
        'events': t.hit_tokens + t.restored_tokens,
        'promised': t.promised_hit_tokens + t.promised_restored_tokens
      },
      {'counter': 'usage:output_tokens', 'counted': u.output_tokens, 'events': t.output_tokens, 'promised': t.output_tokens}
    ]) as what
  from _counted_turns as t
  join _turn_usage as u using (trace_id, span_id)
  where (the_engine is null or t.engine = the_engine)
    and (the_run is null or t.run = the_run)
    and (since is null or t.end_ns > since)
    and (until is null or t.end_ns <= until)
)
select
  engine,
  replica,
  what.counter,
  number * (seconds * 1e9)::bigint as from_ns,
  (number + 1) * (seconds * 1e9)::bigint as to_ns,
  sum(what.counted)::bigint as counted,
  0 as resets,
  sum(what.events)::bigint as events,
  coalesce(sum(what.promised - what.events), 0)::bigint as known_tokens,
  0 as self_recovered,
  list_sort(list(distinct known_difference) filter (what.promised <> what.events)) as known,
  list_sort(list(distinct turn_id) filter (what.promised <> what.events)) as known_turns,
  count(*) as turns,
  count(*) filter (not complete and what.events is null) as unsure_turns
from fields
where what.counted is not null
group by engine, replica, what.counter, number;
