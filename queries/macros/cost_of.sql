-- What one turn cost against the hit turns of its conversation: the row of view turn_costs, or none for a hit and
-- for a turn that no cache could have helped.
-- Where its conversation and its arrival are known, the search is quick.
--
-- Example: from cost_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns
--   ttft_seconds DOUBLE -- its time to first token [s]
--   served_seconds DOUBLE -- its time to first token without the queue [s]
--   hit_turns BIGINT -- hit turns of the conversation that it is compared with
--   hit_median_seconds DOUBLE -- served_seconds of the hit turns, median [s]
--   avoidable_tokens BIGINT -- as in view turn_costs [tokens]
--   new_text_seconds DOUBLE -- as in view turn_costs [s]
--   lost_seconds DOUBLE -- as in view turn_costs [s]
--   lost_basis VARCHAR -- hits or rate, as in view turn_costs
--   lost_error_ratio DOUBLE -- standard error of that rate over the rate; null for hits, and where only restores count
create or replace macro cost_of(trace, span, conversation := null, at_ns := null) as table
select ttft_seconds, served_seconds, hit_turns, hit_median_seconds, avoidable_tokens, new_text_seconds, lost_seconds, lost_basis, lost_error_ratio
from turn_costs
where trace_id = trace
  and span_id = span
  and (conversation is null or conversation_digest = md5_number_lower(conversation))
  and (at_ns is null or start_ns = at_ns);
