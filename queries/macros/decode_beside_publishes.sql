-- Latency and decode speed of turns with and without a publish in flight while they decoded: one that took time, by whomever, to
-- whatever tier, on the same engine start, between the turn's first token and its end. Complete turns with at least two tokens.
--
-- Example: from decode_beside_publishes('ring0', null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   publish_in_flight BOOLEAN -- a publish was in flight while they decoded
--   turns BIGINT -- turns
--   decode_tokens BIGINT -- their output tokens after the first [tokens]
--   decode_seconds DOUBLE -- first token to end, sum [s]
--   tokens_per_second DOUBLE -- decode_tokens / decode_seconds, of the sums
--   median_tokens_per_second DOUBLE -- median over the turns
--   median_ttft_seconds DOUBLE -- median time to first token [s]
--   median_total_seconds DOUBLE -- median time from arrival to end [s]
create or replace macro decode_beside_publishes(the_engine, the_run, since, until) as table
with decoded as (
  select
    engine,
    resource_id,
    start_ns + ttft_ns as first_ns,
    end_ns,
    output_tokens - 1 as tokens,
    (total_ns - ttft_ns) / 1e9 as seconds,
    ttft_ns / 1e9 as ttft_seconds,
    total_ns / 1e9 as total_seconds
  from _verdicts_in(the_engine, the_run, since, until)
  where complete and total_ns > ttft_ns and output_tokens > 1
),
-- Of the publishes that began before a turn's end, the latest end says whether one reached past its first token.
publishes as (
  select resource_id, start_ns, max(max(end_ns)) over (partition by resource_id order by start_ns) as latest_end_ns
  from spans
  where name = 'snapshot.publish' and end_ns > start_ns
  group by resource_id, start_ns
),
beside as (
  select d.*, coalesce(p.latest_end_ns > d.first_ns, false) as publish_in_flight
  from decoded as d
  asof left join publishes as p on p.resource_id = d.resource_id and d.end_ns > p.start_ns
)
select
  engine,
  publish_in_flight,
  count(*) as turns,
  sum(tokens)::bigint as decode_tokens,
  sum(seconds) as decode_seconds,
  sum(tokens) / sum(seconds) as tokens_per_second,
  median(tokens / seconds) as median_tokens_per_second,
  median(ttft_seconds) as median_ttft_seconds,
  median(total_seconds) as median_total_seconds
from beside
group by engine, publish_in_flight
order by engine, publish_in_flight;
