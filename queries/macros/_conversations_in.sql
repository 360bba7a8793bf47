-- The conversations of the turns of a range, one row a conversation of an engine start. Figures are of its turns within the range.
--
-- Example: from _conversations_in('ring0', null, null, null)
--
-- columns
--   conversation_id VARCHAR -- the conversation
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   turns BIGINT -- turns, incomplete ones included
--   incomplete_turns BIGINT -- turns left out of the sums
--   first_ns BIGINT -- arrival of the first turn [ns]
--   last_ns BIGINT -- arrival of the last turn [ns]
--   longest_prompt_tokens BIGINT -- longest prompt of a complete turn [tokens]
--   hit_tokens BIGINT -- sum over complete turns [tokens]
--   restored_tokens BIGINT -- sum over complete turns [tokens]
--   recomputed_tokens BIGINT -- sum over complete turns [tokens]
--   new_tokens BIGINT -- sum over complete turns [tokens]
--   reused_tokens BIGINT -- hit or restored of what had been seen, complete turns [tokens]
--   seen_tokens BIGINT -- what had been seen, complete turns [tokens]
--   median_ttft_seconds DOUBLE -- median time to first token, complete turns [s]
--   worst_ttft_seconds DOUBLE -- longest time to first token, complete turns [s]
--   runs VARCHAR -- labels of the experiments, with commas
--   run VARCHAR -- the label, where all of its turns have one and the same
--   elsewhere BOOLEAN -- another engine start has a conversation of this id in the range, too
--   resource_id VARCHAR -- the engine start
create or replace macro _conversations_in(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select
  conversation_id,
  engine,
  replica,
  count(*) as turns,
  count(*) filter (not complete) as incomplete_turns,
  min(start_ns) as first_ns,
  max(start_ns) as last_ns,
  max(prompt_tokens) filter (complete) as longest_prompt_tokens,
  (sum(hit_tokens) filter (complete))::bigint as hit_tokens,
  (sum(restored_tokens) filter (complete))::bigint as restored_tokens,
  (sum(recomputed_tokens) filter (complete))::bigint as recomputed_tokens,
  (sum(new_tokens) filter (complete))::bigint as new_tokens,
  (sum(least(hit_tokens + restored_tokens, seen_tokens)) filter (complete and seen_tokens is not null))::bigint as reused_tokens,
  (sum(seen_tokens) filter (complete))::bigint as seen_tokens,
  median(ttft_ns / 1e9) filter (complete) as median_ttft_seconds,
  max(ttft_ns) filter (complete) / 1e9 as worst_ttft_seconds,
  string_agg(distinct run, ', ' order by run) as runs,
  case when count(distinct run) = 1 and count(run) = count(*) then any_value(run) end as run,
  count(*) over (partition by conversation_id) > 1 as elsewhere,
  resource_id
from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
where conversation_id is not null
group by conversation_id, engine, replica, resource_id;
