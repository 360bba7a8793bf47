-- One row a turn whose prompt does not continue its conversation's previous turn of the same run: what had been seen of it ends
-- before the last reuse point that the previous turn had, or before the end of the answer that it had published. Where the previous
-- turn had not ended yet, was not whole, or may have been forgotten by the recorder, nothing is said.
--
-- Example: turn 1 had 900 prompt tokens with the last reuse point at 896; turn 2 has 1,000 and only 64 of them had been seen:
--
--   left_tokens  detail          changed_message
--   950          history_edited  3
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   previous_turn_id VARCHAR -- the conversation's turn before
--   previous_span_id VARCHAR -- its span
--   left_tokens BIGINT -- prompt and answer of the previous turn: up to here the prompt could have been known [tokens]
--   detail VARCHAR -- namespace, timestamp, thinking_stripped, tools, header, history_edited, output_rerendered, truncation or compaction
--   has_messages BOOLEAN -- both turns brought digests of their messages
--   changed_message BIGINT -- number of the first message that is not the same, from 1; null where not known, or where all are
--   changed_role VARCHAR -- its role
create or replace view _changed_prompts as
with asked as (
  select
    trace_id,
    span_id,
    resource_id,
    run,
    conversation_id,
    turn_id,
    previous_turn_id,
    previous_end_tokens,
    start_ns,
    end_ns,
    prompt_tokens,
    coalesce(output_tokens, 0) as output_tokens,
    coalesce(complete, false) as complete,
    seen_tokens,
    seen_basis,
    seen_since_ns,
    key_tokens,
    namespace,
    prompt_changed
  from spans
  where name = 'turn' and turn_id is not null and conversation_id is not null
),
paired as (
  select
    *,
    lag(struct_pack(turn_id, trace_id, span_id, start_ns, end_ns, prompt_tokens, output_tokens, complete, key_tokens, namespace)) over (
      partition by resource_id, run, conversation_id order by start_ns, span_id
    ) as before
  from asked
),
-- Where an answer was published as a whole snapshot: its end.
answers as (
  select p.trace_id, p.turn_id, max(p.key_tokens) as end_tokens
  from spans as p
  join asked as a using (trace_id, turn_id)
  where p.name = 'snapshot.publish'
    and p.outcome = 'committed'
    and p.key_tokens is not null
    -- What is published an hour later is no answer any more.
    and p.start_ns <= a.end_ns + 3_600_000_000_000
  group by all
),
changed as (
  select
    p.trace_id,
    p.span_id as turn_span_id,
    p.before.turn_id as previous_turn_id,
    p.before.trace_id as previous_trace_id,
    p.before.span_id as previous_span_id,
    p.before.prompt_tokens + p.before.output_tokens as left_tokens,
    case
      when p.namespace is distinct from p.before.namespace then 'namespace'
      when p.seen_tokens >= p.before.key_tokens then 'output_rerendered'
      when p.seen_tokens < greatest(coalesce(r.unit_tokens, 1), 1) then 'header'
      when 2 * p.prompt_tokens < p.before.prompt_tokens then 'compaction'
      when p.prompt_tokens < p.before.prompt_tokens then 'truncation'
      else 'history_edited'
    end as detail
  from paired as p
  left join resources as r using (resource_id)
  left join answers as a on a.trace_id = p.before.trace_id and a.turn_id = p.before.turn_id
  where p.complete
    and p.before.complete
    and p.seen_basis = 'keys'
    and p.before.end_ns <= p.start_ns
    -- Where the recorder knows of another turn in between, that one's span is missing.
    and coalesce(p.previous_turn_id = p.before.turn_id, true)
    and p.seen_since_ns <= p.before.start_ns
    -- Where all its own reuse points had been seen, it may as well be the beginning of what went before.
    and p.seen_tokens < p.key_tokens
    and (
      p.seen_tokens < p.before.key_tokens
      or p.prompt_changed is not null  -- by who has read both
      -- Of an older recorder the publishes themselves tell.
      or coalesce(p.previous_end_tokens, a.end_tokens) between p.before.prompt_tokens + 1 and p.prompt_tokens
      and p.seen_tokens < coalesce(p.previous_end_tokens, a.end_tokens)
    )
),
compared as (
  select
    c.*,
    now.prompt_changed as told,
    list_zip(now.messages_digest, was.messages_digest, true) as pairs,
    len(now.messages_digest) as now_count,
    len(was.messages_digest) as was_count,
    coalesce(
      list_position(list_transform(pairs, lambda pair: pair[1] is distinct from pair[2]), true),
      case when now_count < was_count then now_count + 1 end
    ) as changed_message,
    nullif(coalesce(now.messages_role[changed_message], was.messages_role[changed_message]), '') as changed_role,
    -- Where the rest of the earlier messages stands further up, those between were left out.
    nullif(list_position(now.messages_digest, was.messages_digest[was_count]), 0) as last_place,
    changed_message <= last_place
      and last_place < was_count
      and now.messages_digest[changed_message:last_place] = was.messages_digest[changed_message + was_count - last_place:]
      as left_out,
    nullif(was.messages_untimed[changed_message], '') = now.messages_untimed[changed_message] as only_times,
    nullif(was.messages_unthought[changed_message], '') in (now.messages_digest[changed_message], now.messages_unthought[changed_message])
      as only_thinking
  from changed as c
  left join spans as now on now.name = 'turn' and now.trace_id = c.trace_id and now.span_id = c.turn_span_id
  left join spans as was on was.name = 'turn' and was.trace_id = c.previous_trace_id and was.span_id = c.previous_span_id
)
select
  trace_id,
  turn_span_id,
  previous_turn_id,
  previous_span_id,
  left_tokens,
  case
    when detail = 'namespace' then detail
    when told in ('timestamp', 'thinking_stripped', 'tools', 'output_rerendered', 'truncation', 'compaction') then told
    when only_times then 'timestamp'
    when only_thinking then 'thinking_stripped'
    when changed_role = 'tools' then 'tools'
    when changed_role in ('system', 'developer') then 'header'
    when left_out and detail <> 'compaction' then 'truncation'
    else detail
  end as detail,
  now_count is not null and was_count is not null as has_messages,
  changed_message::bigint as changed_message,
  changed_role
from compared
-- Seen is what others had brought as well: where a message before the answer differs, the answer was not rendered anew.
where not coalesce(detail = 'output_rerendered' and changed_message < was_count + 1, false);
