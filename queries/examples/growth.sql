-- How prompts grow, and what of them is cached, by turn of the conversation
select turn, count(*) as turns, median(prompt_tokens) as median_prompt_tokens, avg((hit_tokens + restored_tokens) / prompt_tokens) as mean_cached_ratio
from (
  select *, row_number() over (partition by conversation_id order by start_ns) as turn
  from turns
  where complete and prompt_tokens > 0
)
group by turn
order by turn;
