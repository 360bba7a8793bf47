-- The turns that the demo prints: of each main cause and verdict the first two, in the order in which they arrived.
--
-- Example: from demo_turns()
--
-- columns
--   turn VARCHAR -- the turn
--   conversation VARCHAR -- its conversation
--   prompt BIGINT -- P [tokens]
--   hit BIGINT -- KV was on the device [tokens]
--   restored BIGINT -- KV came from another tier [tokens]
--   recomputed BIGINT -- computed although seen before [tokens]
--   new BIGINT -- computed, not seen before [tokens]
--   ttft_s DOUBLE -- time to first token, to the hundredth [s]
--   verdict VARCHAR -- as in view turns
--   main_cause VARCHAR -- as in view turns
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
