-- One row a turn with prefix keys, of the engine starts that served some without a conversation id: what turns are linked by.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   turn_id VARCHAR -- readable id
--   conversation_id VARCHAR -- conversation that the turn says it grows
--   start_ns BIGINT -- arrival [ns]
--   prompt_tokens BIGINT -- P [tokens]
--   message_count BIGINT -- messages in the prompt
--   seen_tokens BIGINT -- S [tokens]
--   key VARCHAR -- deepest prefix key of the prompt
--   key_tokens BIGINT -- position at which it ends [tokens]
--   keys VARCHAR[] -- keys not seen before, in order of depth
--   keys_end_tokens BIGINT[] -- where each of them ends, where they are not evenly spaced [tokens]
--   parent_key VARCHAR -- the key above the first of keys
--   keys_omitted BIGINT -- keys left out because the list was too long
create or replace view _keyed_turns as
select
  resource_id,
  trace_id,
  span_id,
  turn_id,
  conversation_id,
  start_ns,
  prompt_tokens,
  message_count,
  seen_tokens,
  key,
  key_tokens,
  keys,
  keys_end_tokens,
  parent_key,
  keys_omitted
from spans
where name = 'turn'
  and turn_id is not null
  and key is not null
  and resource_id in (select resource_id from spans where name = 'turn' and conversation_id is null and key is not null);
