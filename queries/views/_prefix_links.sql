-- One row a turn without a conversation id that continues an earlier turn of its engine start: the latest of those whose whole
-- prompt, or prompt with a part of its answer, stands at the beginning of this one's. The longest such beginning counts.
--
-- A turn's chain is its new keys, the key above them, and so on through the turns for which those were new. Where one of these ends
-- an earlier turn's prompt (view _prompt_ends), that turn is continued.
--
-- Where none does, a turn is linked to the one that it shares the longest beginning with, if that is at least half of that turn's prompt, it
-- has more messages than that one, and up to then no other prompt left the same conversation there or later: what a client
-- changed in its history. Two prompts that only share their beginning, such as a system prompt, do not continue each other.
--
-- Example: a-1 asks [k1 k2] and publishes its answer's key k3, b-1 asks [k1 c2], a-2 asks [k1 k2 k3 k4]: a-2 continues a-1, b-1
-- continues nothing. a-3 asks [k1 k2 k3 x4 x5] with more messages than a-2: it shares 3 of 4 with that one.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   previous_trace_id VARCHAR -- trace of the turn that it continues, or shares most with
--   previous_span_id VARCHAR -- span of the turn that it continues, or shares most with
--   shared_key VARCHAR -- the deepest key that shows it
--   is_whole BOOLEAN -- whether the whole of that turn's prompt is shared
create or replace view _prefix_links as
with recursive homes as (
  select resource_id, key, trace_id, span_id, start_ns, depth
  from _chain_keys
  where depth > 0
  qualify row_number() over (partition by resource_id, key order by start_ns, span_id) = 1
),
first_ends as (
  select resource_id, key, min(start_ns) as first_ns
  from _prompt_ends
  group by all
),
end_steps as (
  select s.trace_id, s.span_id, s.depth, s.key, f.first_ns
  from _chain_keys as s
  join first_ends as f using (resource_id, key)
),
above as (
  select a.trace_id, a.span_id, h.trace_id as home_trace_id, h.span_id as home_span_id, h.depth
  from _keyed_turns as a
  join homes as h on h.resource_id = a.resource_id and h.key = a.parent_key and h.start_ns < a.start_ns
),
-- Up the chain, one turn's part of it at a time, until an end of an earlier turn is met.
walk as (
  select
    a.resource_id, a.trace_id, a.span_id, a.start_ns, a.trace_id as at_trace_id, a.span_id as at_span_id,
    max_by(e.key, e.depth) as shared_key
  from _keyed_turns as a
  left join end_steps as e on e.trace_id = a.trace_id and e.span_id = a.span_id and e.first_ns < a.start_ns
  where a.conversation_id is null
  group by all
  union all
  select
    w.resource_id, w.trace_id, w.span_id, w.start_ns, above.home_trace_id, above.home_span_id,
    max_by(e.key, e.depth)
  from walk as w
  join above on above.trace_id = w.at_trace_id and above.span_id = w.at_span_id
  left join end_steps as e
    on e.trace_id = above.home_trace_id
    and e.span_id = above.home_span_id
    and e.depth <= above.depth
    and e.first_ns < w.start_ns
  where w.shared_key is null
  group by w.resource_id, w.trace_id, w.span_id, w.start_ns, above.home_trace_id, above.home_span_id
),
whole as (
  select w.trace_id, w.span_id, e.trace_id as previous_trace_id, e.span_id as previous_span_id, w.shared_key, true as is_whole
  from walk as w
  join _prompt_ends as e on e.resource_id = w.resource_id and e.key = w.shared_key and e.start_ns < w.start_ns
  where w.shared_key is not null
  qualify row_number() over (partition by w.trace_id, w.span_id order by e.start_ns desc, e.span_id desc) = 1
),
-- The others, with the turn that first had the deepest key that they share.
parted as (
  select
    a.trace_id, a.span_id, a.start_ns, a.conversation_id, a.parent_key, above.home_trace_id, above.home_span_id, above.depth,
    coalesce(2 * a.seen_tokens >= h.prompt_tokens and a.message_count > h.message_count, false) as goes_on,
    h.conversation_id as home_conversation_id
  from _keyed_turns as a
  join above using (trace_id, span_id)
  join _keyed_turns as h on h.trace_id = above.home_trace_id and h.span_id = above.home_span_id
  where (a.trace_id, a.span_id) not in (select (trace_id, span_id) from whole)
    and (a.conversation_id is null or a.conversation_id is distinct from h.conversation_id)
)
from whole
union all
select p.trace_id, p.span_id, p.home_trace_id, p.home_span_id, p.parent_key, false
from parted as p
where p.conversation_id is null
  and p.goes_on
  and not exists (
    from parted as other
    where other.home_trace_id = p.home_trace_id
      and other.home_span_id = p.home_span_id
      and other.depth >= p.depth
      and other.start_ns < p.start_ns
      and (other.conversation_id is not null or not other.goes_on)
  );
