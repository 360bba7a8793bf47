-- What was recomputed, by its main cause
select main_cause, count(*) as turns, sum(recomputed_tokens) as tokens, median(ttft_seconds) as median_ttft_seconds
from turns
where verdict = 'recomputed'
group by main_cause
order by tokens desc;
