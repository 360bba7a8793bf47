-- Restores by tier and outcome: how many, how large, how fast
select tier, outcome, count(*) as restores, sum(tokens) as tokens, sum(tokens) / nullif(sum(seconds), 0) as tokens_per_second
from restores
group by tier, outcome
order by restores desc;
