-- One row a run of turns whose blocks the device held without a break: where what each of them left ends, and when it was there.
create table plan.runs as
select run, list(cut(engine, prompt + output) order by k) as ends, list(token_ns order by k) as tokens_ns
from plan.decided
where not has_snapshots(engine)
group by run
order by run;
