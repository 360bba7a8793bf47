-- One row a turn and a part of its prompt that was computed here although the device of another replica held it when the turn was
-- admitted. Of text that was seen here before, a part is what its first missing key explains, as an eviction would. Of text that
-- was new here, it is as much as that replica had of the turn's own keys: as far as they are whole there, or a snapshot reaches.
-- Only engines with several replicas have any, and only what was published there within the hour before counts; keys are the same
-- on all of them, or nothing is found.
--
-- Example: replica r1 holds the first 96 tokens of a prompt of 140 that is new on r0:
--
--   of_source  of_key  held_tokens  held_replica
--   new        null    96           r1
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   of_source VARCHAR -- recomputed, or new (of a turn once)
--   of_key VARCHAR -- the first missing key of what was recomputed; null of new text
--   held_tokens BIGINT -- end of what is explained so [tokens]
--   held_replica VARCHAR -- the replica that held it; of several the one that held most
--   held_span_id VARCHAR -- the publish, in the trace of the turn that it was for
create or replace view _placements as
with peers as (
  from _peers
),
events as (
  select *
  from (
    select
      resource_id,
      unnest(keys) as key,
      name = 'snapshot.publish' as is_there,
      key_tokens is not null as is_whole,
      end_ns as at_ns,
      sequence,
      span_id
    from spans
    where name in ('snapshot.publish', 'snapshot.evict')
      and tier = 'device'
      and (name = 'snapshot.evict' or coalesce(outcome, 'committed') = 'committed')
      and end_ns is not null
      and resource_id in (select peer_id from peers)
  )
  where key is not null
),
-- From a publish until the key was evicted.
stays as (
  select
    *,
    min(at_ns) filter (not is_there) over (
      partition by resource_id, key order by at_ns, sequence, span_id rows between 1 following and unbounded following
    ) as until_ns
  from events
  qualify is_there
),
asked as (
  select t.*, coalesce(t.run, '') as of_run, a.span_id as admit_span_id, a.at_ns as admitted_ns
  from spans as t
  join _admissions as a on a.trace_id = t.trace_id and a.turn_span_id = t.span_id
  where t.name = 'turn' and t.resource_id in (select resource_id from peers)
),
wanted as (
  select trace_id, span_id, resource_id, of_run, admitted_ns, source, key, end_tokens, null as place
  from (
    select
      *,
      unnest(segments_source) as source,
      unnest(segments_key) as key,
      unnest(segments_end_tokens) as end_tokens
    from (select * exclude (key) from asked)
  )
  where source = 'recomputed' and key <> ''
  union all
  select trace_id, span_id, resource_id, of_run, admitted_ns, 'new', key, end_tokens, row_number() over (partition by trace_id, span_id order by nth)
  from (
    select
      *,
      unnest(keys) as key,
      unnest(range(1, len(keys) + 1)) as nth,
      coalesce(keys_end_tokens[nth], key_tokens - (coalesce(keys_omitted, 0) + len(keys) - nth) * tokens_each) as end_tokens
    from (select * exclude (key) from asked)
  )
  where end_tokens > seen_tokens
),
asked_of as (
  select *
  from wanted
  where key in (select key from stays)
),
-- Of the publishes within the hour before the admission the last, on replicas that were up and served the same run.
there as (
  select w.*, p.peer_id, p.replica, s.is_whole, s.span_id as publish_span_id
  from asked_of as w
  join peers as p on p.resource_id = w.resource_id
  join stays as s
    on s.resource_id = p.peer_id
    and s.key = w.key
    and s.at_ns <= w.admitted_ns
    and s.at_ns >= w.admitted_ns - 3_600_000_000_000
    and (s.until_ns is null or w.admitted_ns < s.until_ns)
  where exists (
    from _heard as h
    where h.resource_id = p.peer_id
      and h.run = w.of_run
      and h.hour between w.admitted_ns // 3_600_000_000_000 - 1 and w.admitted_ns // 3_600_000_000_000
  )
  qualify row_number() over (
    partition by w.trace_id, w.span_id, w.source, w.key, w.place, p.peer_id order by s.at_ns desc, s.sequence desc, s.span_id
  ) = 1
),
held as (
  select *, row_number() over (partition by trace_id, span_id, source, peer_id order by place) as rank
  from there
)
select
  trace_id,
  span_id as turn_span_id,
  source as of_source,
  case when source = 'recomputed' then key end as of_key,
  end_tokens as held_tokens,
  replica as held_replica,
  publish_span_id as held_span_id
from held
where source = 'recomputed' or is_whole or rank = place
qualify row_number() over (
  partition by trace_id, turn_span_id, of_source, of_key order by end_tokens desc, replica
) = 1;
