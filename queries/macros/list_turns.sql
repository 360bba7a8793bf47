-- The latest turns in the order in which they arrived, for a list. Null for an argument means any.
--
-- Example: from list_turns(null, 'recomputed', 20)
create or replace macro list_turns(conversation, the_verdict, most) as table
select * exclude (start_ns)
from (
  select
    turn_id,
    verdict,
    main_cause,
    prompt_tokens as prompt,
    hit_tokens as hit,
    restored_tokens as restored,
    recomputed_tokens as recomputed,
    new_tokens as new,
    unobserved_tokens as unobserved,
    ttft_seconds as ttft_s,
    conversation_id as conversation,
    started_at,
    start_ns
  from turns
  where (conversation is null or conversation_id = conversation) and (the_verdict is null or verdict = the_verdict)
  order by start_ns desc
  limit most
) as latest
order by start_ns, turn_id;
