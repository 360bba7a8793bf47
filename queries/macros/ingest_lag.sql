-- One row a sender: how long after its end a span was received, over the range and over the last five minutes in which it sent. The
-- lag spans two clocks, the sender's and the collector's: a negative one is a clock that is ahead. Spans that were replayed or
-- imported were received long after they ended; their smallest lag tells.
--
-- Example: from ingest_lag(null, null, null, null) where three spans came 1, 2 and 9 s after their ends, the last one an hour later:
--
--   spans  median_seconds  p95_seconds  max_seconds  recent_spans  recent_median_seconds
--   3      2               8.3          9            1             9
--
-- columns
--   engine VARCHAR -- which server; of another sender its service's name
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the engine start
--   spans BIGINT -- spans with an end
--   median_seconds DOUBLE -- received after the end, median [s]
--   p95_seconds DOUBLE -- 95 % came faster [s]
--   max_seconds DOUBLE -- the slowest [s]
--   min_seconds DOUBLE -- the fastest [s]
--   recent_spans BIGINT -- spans received in the last five minutes in which it sent
--   recent_median_seconds DOUBLE -- of those, median [s]
--   recent_p95_seconds DOUBLE -- of those, 95 % came faster [s]
--   last_received_ns BIGINT -- when the last span was received [ns]
create or replace macro ingest_lag(the_engine, the_run, since, until) as table
with sent as (
  select engine, replica, resource_id, received_ns, (received_ns - end_ns) / 1e9 as lag
  from _sent(the_engine, the_run, since, until)
  where end_ns is not null and received_ns is not null
),
last as (
  select resource_id, max(received_ns) as last_received_ns
  from sent
  group by resource_id
)
select
  engine,
  replica,
  resource_id,
  count(*) as spans,
  median(lag) as median_seconds,
  quantile_cont(lag, 0.95) as p95_seconds,
  max(lag) as max_seconds,
  min(lag) as min_seconds,
  count(*) filter (received_ns > last_received_ns - 300_000_000_000) as recent_spans,
  median(lag) filter (received_ns > last_received_ns - 300_000_000_000) as recent_median_seconds,
  quantile_cont(lag, 0.95) filter (received_ns > last_received_ns - 300_000_000_000) as recent_p95_seconds,
  last_received_ns
from sent
join last using (resource_id)
group by engine, replica, resource_id, last_received_ns
order by engine, replica, last_received_ns, resource_id;
