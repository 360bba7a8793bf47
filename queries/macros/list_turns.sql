-- The latest turns of a range in the order in which they arrived, for a list. Null for an argument means any.
--
-- Example: from list_turns('ring0', null, null, null, null, 'recomputed', 20)
--
-- columns
--   turn_id VARCHAR -- the turn
--   verdict VARCHAR -- as in view turns
--   main_cause VARCHAR -- as in view turns
--   prompt BIGINT -- P [tokens]
--   hit BIGINT -- KV was on the device [tokens]
--   restored BIGINT -- KV came from another tier [tokens]
--   recomputed BIGINT -- computed although seen before; null where S is unknown [tokens]
--   new BIGINT -- computed, not seen before; null where S is unknown [tokens]
--   unobserved BIGINT -- the events do not say [tokens]
--   ttft_s DOUBLE -- arrival to first token [s]
--   conversation VARCHAR -- its conversation
--   started_at TIMESTAMP_NS -- arrival, UTC
--   run VARCHAR -- label of the experiment
create or replace macro list_turns(the_engine, the_run, since, until, the_conversation, the_verdict, most) as table
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
    run,
    start_ns
  from _turns_in(the_engine, the_run, since, until)
  where (the_conversation is null or conversation_id = the_conversation) and (the_verdict is null or verdict = the_verdict)
  order by start_ns desc
  limit most
) as latest
order by start_ns, turn_id;
