-- Half of ``health``: findings about what arrives. See macro health.
--
-- Example: from _health_of_senders(null, null, null, null, null)
create or replace macro _health_of_senders(the_engine, the_run, since, until, as_of) as table
select
  engine,
  replica,
  resource_id,
  'ingest_lag' as topic,
  case
    when min_seconds > 3600 or source is not null then 'ok'
    when recent_p95_seconds > 60 then 'bad'
    when recent_p95_seconds > 10 or min_seconds < -1 then 'warn'
    else 'ok'
  end as level,
  case
    when min_seconds > 3600 then format('{:.0f} h or more ({:,} span{})', min_seconds / 3600, spans, if(spans = 1, '', 's'))
    else format(
      'median {:.1f} s, 95 % {:.1f} s, max {:.1f} s; last 5 minutes: median {:.1f} s, 95 % {:.1f} s ({:,} span{})',
      median_seconds, p95_seconds, max_seconds, recent_median_seconds, recent_p95_seconds, spans, if(spans = 1, '', 's')
    )
  end as figure,
  case
    when min_seconds > 3600 or source is not null
      then 'The spans were imported, replayed or simulated after they had ended: the lag says nothing.'
    when min_seconds < -1 then 'Spans were received before they ended: the sender''s clock is ahead of the collector''s.'
    when recent_p95_seconds > 10 then 'Spans arrive late: recent turns are not in the answers yet.'
    else 'Spans arrive soon after they end.'
  end as meaning,
  case
    when min_seconds > 3600 or source is not null then null
    when min_seconds < -1 then 'Synchronise the clocks (NTP).'
    when recent_p95_seconds > 10 then 'See the collector''s /metrics for requests refused or waiting, and OTEL_BSP_* of other senders.'
  end as next_step
from ingest_lag(the_engine, the_run, since, until)
left join (select resource_id, source from resources) using (resource_id)
union all
select
  engine,
  replica,
  resource_id,
  'dropped_records',
  case when dropped_records > 0 then 'bad' else 'ok' end,
  case
    when dropped_records > 0
      then format('{:,} record{} since ', dropped_records, if(dropped_records = 1, '', 's'))
        || strftime(make_timestamp_ns(first_ns), '%Y-%m-%d %H:%M:%S')
        || strftime(make_timestamp_ns(last_ns), ', the last at %Y-%m-%d %H:%M:%S')
    else format('0 records in {:,} sample{}', samples, if(samples = 1, '', 's'))
  end,
  case
    when dropped_records > 0 then 'The recorder lost records: turns that were open then are incomplete.'
    else 'The recorder lost nothing.'
  end,
  case
    when dropped_records > 0
      then 'Raise TURNLENS_BUFFER (65,536 records unless it is set); turnlens_dropped_records_total says at which stage.'
  end
from dropped_records(the_engine, the_run, since, until)
union all
select
  engine,
  replica,
  resource_id,
  'quiet_engine',
  'warn',
  format('silent for {:.0f} s, usually at most {:.1f} s', silent_seconds, usual_gap_seconds),
  'Nothing has been heard of this engine since ' || strftime(make_timestamp_ns(last_ns), '%Y-%m-%d %H:%M:%S') || ' UTC.',
  'See whether it runs and has traffic, and whether it still reaches the collector (OTEL_EXPORTER_OTLP_ENDPOINT).'
from quiet_engines(the_engine, the_run, since, until, as_of)
where quiet
union all
select
  engine,
  replica,
  resource_id,
  'clock_skew',
  case when skewed then 'warn' else 'ok' end,
  case
    when low_seconds is null then format('at most {:.3f} s ahead of {}, no lower bound', high_seconds, parent)
    when high_seconds is null then format('at least {:.3f} s ahead of {}, no upper bound', low_seconds, parent)
    else format('between {:.3f} and {:.3f} s ahead of {} ({:,} turn{})', low_seconds, high_seconds, parent, turns, if(turns = 1, '', 's'))
  end,
  case
    when contradictory then 'The bounds exclude each other: a clock was set or drifts, or the caller does not wait for the end.'
    when skewed then format('{:,} of {:,} turn{} began or ended outside the call that was answered.', outside_turns, turns, if(turns = 1, '', 's'))
    else 'Every turn lies within the call that it answers.'
  end,
  case
    when correction_seconds <> 0
      then format('Synchronise the clocks (NTP). Until then add {:.3f} s to this engine''s times (within {:.3f} s).',
        correction_seconds, correction_error_seconds)
    when skewed then 'Synchronise the clocks (NTP).'
  end
from clock_skew(the_engine, the_run, since, until)
where skewed is not null
union all
select
  null,
  null,
  null,
  'facts',
  case when failed_spans > 0 then 'bad' else 'warn' end,
  format('{:,} spans wait', waiting_spans) || case when failed_spans > 0 then format(', {:,} could not be told', failed_spans) else '' end,
  'Turns and causes do not contain these spans' || case when failed_spans > 0 then ': ' || last_error else ' yet.' end,
  case
    when failed_spans > 0 then 'Report it, with that error: their spans are stored, and are told when a newer version opens the store.'
    else 'Start `turnlens serve` on this store: it tells them.'
  end
from untold_spans()
where waiting_spans > 0 or failed_spans > 0;
