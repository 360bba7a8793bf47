-- The latest conversations in the order in which they began, for a list.
--
-- Example: from list_conversations(20)
create or replace macro list_conversations(most) as table
select *
from (
  select
    conversation_id as conversation,
    engine,
    turns,
    incomplete_turns as incomplete,
    first_at,
    last_at,
    longest_prompt_tokens as longest_prompt,
    hit_tokens as hit,
    restored_tokens as restored,
    recomputed_tokens as recomputed,
    new_tokens as new,
    reuse_ratio,
    median_ttft_seconds as median_ttft_s,
    worst_ttft_seconds as worst_ttft_s
  from conversations
  order by last_at desc
  limit most
) as latest
order by first_at, conversation;
