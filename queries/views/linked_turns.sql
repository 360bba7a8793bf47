-- One row a turn with the conversation that it belongs to and the turn that it continues. Where a turn has no conversation id, it
-- is linked by its prefix: to the latest earlier turn of the same engine start whose whole prompt (or prompt and answer) stands at
-- the beginning of its own; else to the conversation that it shares the longest beginning with, if that is most of a prompt with fewer
-- messages (view _prefix_links). Its conversation is then that turn's, or ``derived:`` and the id of the first turn.
-- A turn with an id continues the one before it of the same engine and run: benchmarks use the ids of their conversations again.
--
-- Example: a-1 and a-2 bring no id, and a-2's prompt begins with a-1's:
--
--   turn_id  conversation_id  linked_by  previous_turn_id
--   a-1      derived:a-1      prefix
--   a-2      derived:a-1      prefix     a-1
--
-- columns
--   turn_id VARCHAR -- the turn
--   conversation_id VARCHAR -- its conversation; null where it has neither an id nor prefix keys
--   linked_by VARCHAR -- id (the request named it); derived from prefix keys: prefix, or shared_prefix where only a part of an earlier prompt is shared; null where the conversation is
--   previous_turn_id VARCHAR -- the turn that it continues; null for a first one
--   previous_prompt_tokens BIGINT -- that turn's prompt [tokens]
--   shared_key VARCHAR -- the deepest prefix key that shows it; null where an id does
--   start_ns BIGINT -- arrival [ns]
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   resource_id VARCHAR -- the engine start
create or replace view linked_turns as
with recursive unnamed as (
  select
    t.turn_id,
    t.start_ns,
    t.trace_id,
    t.span_id,
    t.resource_id,
    t.prompt_tokens,
    s.key,
    l.shared_key,
    coalesce(l.is_whole, true) as is_whole,
    l.previous_trace_id,
    l.previous_span_id,
    p.turn_id as previous_turn_id,
    p.prompt_tokens as previous_prompt_tokens,
    p.conversation_id as previous_conversation_id
  from _turn_facts as t
  left join spans as s on s.name = 'turn' and s.trace_id = t.trace_id and s.span_id = t.span_id
  left join _prefix_links as l on l.trace_id = t.trace_id and l.span_id = t.span_id
  left join spans as p on p.name = 'turn' and p.trace_id = l.previous_trace_id and p.span_id = l.previous_span_id
  where t.conversation_id is null
),
rooted as (
  select
    trace_id,
    span_id,
    case when key is not null then coalesce(previous_conversation_id, 'derived:' || turn_id) end as conversation_id
  from unnamed
  where previous_span_id is null or previous_conversation_id is not null
  union all
  select u.trace_id, u.span_id, r.conversation_id
  from unnamed as u
  join rooted as r on r.trace_id = u.previous_trace_id and r.span_id = u.previous_span_id
)
select
  turn_id,
  conversation_id,
  'id' as linked_by,
  lag(turn_id) over in_order as previous_turn_id,
  lag(prompt_tokens) over in_order as previous_prompt_tokens,
  null::varchar as shared_key,
  start_ns,
  trace_id,
  span_id,
  resource_id
from _turn_facts
where conversation_id is not null
window in_order as (partition by engine, run, conversation_id order by start_ns, turn_id)
union all
select
  u.turn_id,
  r.conversation_id,
  case when r.conversation_id is not null then case when u.is_whole then 'prefix' else 'shared_prefix' end end,
  case when u.is_whole then u.previous_turn_id else coalesce(lag(u.turn_id) over in_order, u.previous_turn_id) end,
  case when u.is_whole then u.previous_prompt_tokens else coalesce(lag(u.prompt_tokens) over in_order, u.previous_prompt_tokens) end,
  u.shared_key,
  u.start_ns,
  u.trace_id,
  u.span_id,
  u.resource_id
from unnamed as u
left join rooted as r using (trace_id, span_id)
window in_order as (partition by r.conversation_id order by u.start_ns, u.turn_id);
