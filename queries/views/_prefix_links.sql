-- One row a turn without a conversation id that continues an earlier turn of its engine start: the latest of those whose whole
-- prompt, or prompt with a part of its answer, stands at the beginning of this one's. The longest such beginning counts.
--
-- A turn's chain is its new keys, the key above them, and so on through the turns for which those were new. Where one of these ends
-- an earlier turn's prompt (view _prompt_ends), that turn is continued. Two prompts that only share their beginning, such as a system
-- prompt, do not continue each other.
--
-- Example: a-1 asks [k1 k2] and publishes its answer's key k3, b-1 asks [k1 c2], a-2 asks [k1 k2 k3 k4]: a-2 continues a-1, b-1
-- continues nothing.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   previous_trace_id VARCHAR -- trace of the turn that it continues
--   previous_span_id VARCHAR -- span of the turn that it continues
--   shared_key VARCHAR -- the deepest key that shows it
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
)
select w.trace_id, w.span_id, e.trace_id as previous_trace_id, e.span_id as previous_span_id, w.shared_key
from walk as w
join _prompt_ends as e on e.resource_id = w.resource_id and e.key = w.shared_key and e.start_ns < w.start_ns
where w.shared_key is not null
qualify row_number() over (partition by w.trace_id, w.span_id order by e.start_ns desc, e.span_id desc) = 1;
