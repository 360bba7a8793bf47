-- Turns that the cache served well and that were slow all the same
select turn_id, conversation_id, main_cause, ttft_seconds, not_cache_seconds, queue_seconds, frontend_seconds
from turns
where verdict = 'hit' and main_cause like 'not_cache.%'
order by not_cache_seconds desc
limit 100;
