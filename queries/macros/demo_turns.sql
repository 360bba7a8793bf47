-- The turns that the demo prints: of each main cause and verdict the first two, in the order in which they arrived.
--
-- Example: from demo_turns()
create or replace macro demo_turns() as table
select * exclude (start_ns)
from (
  select
    turn_id as turn,
    conversation_id as conversation,
    prompt_tokens as prompt,
    hit_tokens as hit,
    restored_tokens as restored,
    recomputed_tokens as recomputed,
    new_tokens as new,
    round(ttft_seconds, 2) as ttft_s,
    verdict,
    main_cause,
    start_ns
  from turns
  qualify row_number() over (partition by verdict, main_cause order by prompt_tokens desc, start_ns) <= 2
) as chosen
order by start_ns, turn;
