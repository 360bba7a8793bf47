-- The other half of ``health``: findings about what the spans say. See macro health.
--
-- Example: from _health_of_turns(null, null, null, null, null)
create or replace macro _health_of_turns(the_engine, the_run, since, until, as_of) as table
with every as (
  select engine, replica, count(*) as turns, count(*) filter (complete) as complete_turns
  from _verdicts_in(the_engine, the_run, since, until)
  group by engine, replica
)
select
  engine,
  replica,
  null::varchar as resource_id,
  'complete_turns' as topic,
  'ok' as level,
  format('{:,} of {:,} turn{}', complete_turns, turns, if(turns = 1, '', 's')) as figure,
  'So many turns are whole, and are what every answer is about.' as meaning,
  null::varchar as next_step
from every
union all
select
  engine,
  replica,
  null,
  'incomplete_turns',
  case when turns = aborted_turns then 'ok' when share_ratio >= 0.05 then 'bad' else 'warn' end,
  format('{}: {:,} of {:,} turn{} ({:.1f} %)', reason, turns, of_turns, if(of_turns = 1, '', 's'), 100 * share_ratio)
    || case when aborted_turns > 0 then format(', {:,} of them left by their client', aborted_turns) else '' end
    || ' since ' || strftime(make_timestamp_ns(first_ns), '%Y-%m-%d %H:%M:%S'),
  upper(meaning[1]) || meaning[2:] || '. Such turns are left out of every sum, the last was ' || example_turn || '.',
  case when turns > aborted_turns then next_step end
from incomplete_turns(the_engine, the_run, since, until)
union all
select
  engine,
  replica,
  resource_id,
  'unfinished_turns',
  case when oldest_seconds > 600 then 'warn' else 'ok' end,
  format('{:,} turn{}, the oldest ({}) for {:.0f} s', turns, if(turns = 1, '', 's'), oldest_turn, oldest_seconds),
  case
    when oldest_seconds > 600 then 'They were admitted and have not ended' || format(
      '; of those that came after the oldest, {:,} have. The engine died, or ends were lost.', ended_turns
    )
    else 'The engine is at work on them.'
  end,
  case when oldest_seconds > 600 then 'See whether the engine still runs. If it was killed, its last turns stay as they are.' end
from unfinished_turns(the_engine, the_run, since, until, as_of)
union all
select
  engine,
  replica,
  resource_id,
  'odd_spans',
  'warn',
  format('{}: {:,} span{} since {}', fault, spans, if(spans = 1, '', 's'), strftime(make_timestamp_ns(first_received_ns), '%Y-%m-%d %H:%M:%S')),
  'Spans arrived in an odd form, the first was ' || span_id || '. What no column can hold is null.',
  'The table of faults in docs/collector.md says what it means. Mend the sender.'
from odd_spans(the_engine, the_run, since, until)
union all
select
  engine,
  replica,
  null,
  'verdicts',
  case when later then 'ok' else 'bad' end,
  format('{} by the recorder, {} by the SQL: {:,} turn{}', recorded_verdict, verdict, turns, if(turns = 1, '', 's')),
  case
    when later then 'What the spans say is less sure than what the recorder said at the turn''s end. The first is ' || example_turn || '.'
    else 'Two independent answers differ. The first is ' || example_turn || '.'
  end,
  case when not later then 'Report it with that turn: one of the two is wrong.' end
from verdict_disagreements(the_engine, the_run, since, until);
