-- What one turn cost against the hit turns of its conversation: the row of view turn_costs, or none for a hit.
-- Where its conversation is known, the search is quick.
--
-- Example: from cost_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
create or replace macro cost_of(trace, span, conversation := null) as table
select ttft_seconds, served_seconds, hit_turns, hit_median_seconds, lost_seconds, lost_basis, lost_error_ratio
from turn_costs
where trace_id = trace
  and span_id = span
  and (conversation is null or conversation_digest = md5_number_lower(conversation));
