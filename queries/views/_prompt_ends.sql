-- One row a turn and a key that shows, where it stands in a later prompt, that this one is continued: the deepest of the prompt's,
-- the deepest of its whole blocks, those of its answer. A key before the prompt's end is one only where it was new with this turn: a
-- system prompt that many share ends none of them.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   key VARCHAR -- the prefix key
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   start_ns BIGINT -- arrival of the turn [ns]
create or replace view _prompt_ends as
with published as (
  -- A key that another turn published before is of its answer: this one has it in its prompt, and publishes it again.
  select resource_id, turn_id, key_tokens, key
  from (select resource_id, turn_id, key_tokens, start_ns, span_id, unnest(keys) as key from spans where name = 'snapshot.publish')
  qualify row_number() over (partition by resource_id, key order by start_ns, span_id) = 1
),
-- Keys a block apart, and a last one before the block is full: the next prompt fills it, and has another key there.
blocks as (
  select *, ends[-2] - ends[-3] as block
  from (
    select *, case when parent_key is null then [] else [seen_tokens] end || keys_end_tokens as ends
    from _keyed_turns
    where keys_omitted is null and len(keys_end_tokens) >= 2
  )
),
brought as (
  select resource_id, key, min(start_ns) as start_ns
  from _chain_keys
  where depth > 0
  group by all
)
select resource_id, key, trace_id, span_id, start_ns
from _keyed_turns
where key_tokens = prompt_tokens or list_contains(keys, key)
union
select resource_id, keys[-2], trace_id, span_id, start_ns
from blocks
where len(ends) >= 3
  and ends[-1] - ends[-2] < block
  and len(list_filter(ends[:-2], lambda place: place % block <> 0)) = 0
union
-- Of an answer are the keys that were published and that no prompt up to then had brought.
select a.resource_id, p.key, a.trace_id, a.span_id, a.start_ns
from published as p
join _keyed_turns as a using (resource_id, turn_id)
left join brought as h on h.resource_id = p.resource_id and h.key = p.key
where (h.start_ns is null or h.start_ns > a.start_ns)
  and (p.key_tokens > a.prompt_tokens or (p.key_tokens is null and a.keys_omitted is null));
