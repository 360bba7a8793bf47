-- What macro reasks shows, its other conversations only where ``counted``: that takes a join of each re-ask with every turn in between,
-- all else is looked up in two places (12,000 turns of a Mooncake trace: 3.9 s with it, 1.2 s without).
--
-- Example: from _reasks_in('ring0', null, null, null, false)
create or replace macro _reasks_in(the_engine, the_run, since, until, counted, the_start := null) as table
with parts as (
  from _reask_parts_in(the_engine, the_run, since, until, the_start)
),
asked_about as (
  select resource_id, min(used_ns) as from_ns, max(admitted_ns) as until_ns from parts group by resource_id
),
-- Lists of keys are heavy, and read only where they count.
publishes as (
  select s.rowid as place, s.resource_id, s.end_ns as at_ns
  from spans as s
  join asked_about as a on a.resource_id = s.resource_id and s.end_ns > a.from_ns and s.end_ns <= a.until_ns
  where s.name = 'snapshot.publish' and s.outcome = 'committed' and s.tier = 'device'
),
-- Sums up to a time are looked up twice and subtracted: with a row at time 0, so that there is always one to find.
published as (
  select resource_id, at_ns, sum(sum(published)) over (partition by resource_id order by at_ns) as before
  from (
    select p.resource_id, p.at_ns, coalesce(len(s.keys), 1) as published
    from publishes as p
    join spans as s on s.rowid = p.place
    union all
    select distinct resource_id, 0, 0 from parts
  )
  group by resource_id, at_ns
),
served as (
  select
    resource_id,
    at_ns,
    conversation,
    row_number() over (order by resource_id, at_ns, conversation) as place,
    sum(tokens) over (partition by resource_id order by at_ns, conversation rows unbounded preceding) as before
  from (
    select
      resource_id,
      start_ns + ttft_ns as at_ns,
      coalesce(conversation_id, 'turn ' || turn_id) as conversation,
      work_computed_tokens as tokens
    from _turn_facts
    where ttft_ns is not null
    union all
    select distinct resource_id, 0, '', 0 from parts
  )
),
places as (
  select resource_id, at_ns, max(place) as place, max(before) as before from served group by all
),
between_them as (
  select
    p.*,
    (n.before - m.before)::bigint as publishes,
    (y.before - x.before)::bigint as computed_tokens,
    x.place as after_place,
    y.place as up_to_place
  from parts as p
  asof join published as m on m.resource_id = p.resource_id and p.used_ns >= m.at_ns
  asof join published as n on n.resource_id = p.resource_id and p.admitted_ns >= n.at_ns
  asof join places as x on x.resource_id = p.resource_id and p.used_ns >= x.at_ns
  asof join places as y on y.resource_id = p.resource_id and p.admitted_ns >= y.at_ns
),
others as (
  select b.trace_id, b.span_id, b.used_ns, count(distinct s.conversation) as conversations
  from between_them as b
  join served as s on s.place > b.after_place and s.place <= b.up_to_place
  where counted and s.conversation is distinct from coalesce(b.conversation_id, 'turn ' || b.turn_id)
  group by all
)
select
  b.turn_id, b.conversation_id, start_token, end_token, provided_by_turn, publishes,
  up_to_place - after_place as other_turns,
  case when counted then coalesce(o.conversations, 0) end as other_conversations,
  computed_tokens,
  (admitted_ns - used_ns) / 1e9 as idle_seconds,
  seen_tokens, hit_tokens, restored_tokens,
  (hit_tokens + restored_tokens) / seen_tokens::double as reuse_ratio,
  used_ns, admitted_ns, trace_id, span_id
from between_them as b
left join others as o using (trace_id, span_id, used_ns)
order by admitted_ns, turn_id, start_token;
