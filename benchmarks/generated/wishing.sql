-- What is to become of each turn, and when it comes if it does: ``wish`` is first (of an epoch), disabled, skipped (the turn before
-- published nothing), restored, restore_failed or evicted (the whole conversation had been), else kept.
--
-- ``seen``, ``hit`` and ``restored_to`` are positions; a turn before whose answer is below the smallest span has no snapshot of it.
create or replace temp macro cut(engine, tokens) as case when has_snapshots(engine) then tokens else tokens // 16 * 16 end;
create or replace temp macro too_short(engine, output) as has_snapshots(engine) and output < 32;
-- Two in a row do not skip, nor does a turn that lost its prefix: what stands before is then known.
create or replace temp macro skip_drawn(turn, engine) as has_snapshots(engine) and draw('skip', turn) < 0.03;
-- After a loss a block engine publishes every block of the prompt again: half as many losses keep the lists of keys near 25.
create or replace temp macro loss_drawn(turn, engine, pause_seconds) as
  draw('loss', turn) < (0.05 + 0.6 * (1 - exp(-pause_seconds / 400))) * case when has_snapshots(engine) then 1 else 0.5 end;
create or replace temp macro disabled_drawn(turn) as draw('disabled', turn) < 0.002;

-- Positions, by what becomes of a turn.
create or replace temp macro seen_by(fate, engine, app, before_prompt, before_output) as
  case when fate = 'first' then system_tokens(app) when fate = 'founder' then 0 else cut(engine, before_prompt + before_output) end;
create or replace temp macro stored_by(engine, before_prompt, before_output) as
  case when too_short(engine, before_output) then before_prompt else cut(engine, before_prompt + before_output) end;
create or replace temp macro hit_by(
  fate, engine, app, before_prompt, before_output, before_first, before2_prompt, before2_output
) as
  case
    when fate in ('founder', 'disabled') then 0
    when fate = 'kept' then stored_by(engine, before_prompt, before_output)
    when fate = 'skipped' and not before_first then stored_by(engine, before2_prompt, before2_output)
    else system_tokens(app)
  end;
create or replace temp macro restored_by(fate, engine, app, before_prompt, before_output) as
  case when fate = 'restored' then stored_by(engine, before_prompt, before_output) - system_tokens(app) else 0 end;

-- Times.
create or replace temp macro frontend_by(turn) as (5e6 + 50e6 * draw('frontend', turn))::bigint;
create or replace temp macro queue_by(turn) as
  (2e6 + 20e6 * draw('queue', turn) + case when draw('busy', turn) < 0.04 then 10e9 * draw('wait', turn) else 0 end)::bigint;
create or replace temp macro restoring_by(turn, tokens) as
  case when tokens > 0 then (5e6 + tokens * 20e3 * (0.8 + 0.4 * draw('restoring', turn)))::bigint else 0 end;
create or replace temp macro computing_by(turn, tokens) as (40e6 + tokens * 100e3 * (0.8 + 0.4 * draw('computing', turn)))::bigint;

create table plan.wished as
with wishes as (
  select
    *,
    case
      when first then 'first'
      when disabled_drawn(turn) then 'disabled'
      when skip_drawn(turn - 1, engine)
        and not (k >= 2 and skip_drawn(turn - 2, engine))
        and not disabled_drawn(turn - 1)
        and (before_first or not loss_drawn(turn - 1, engine, before_pause_seconds))
        then 'skipped'
      when not loss_drawn(turn, engine, pause_seconds) then 'kept'
      when has_host(engine) and draw('how', turn) < 0.5 then 'restored'
      when has_host(engine) and draw('how', turn) < 0.65 then 'restore_failed'
      else 'evicted'
    end as wish
  from (select *, lag(pause_seconds) over (partition by conversation order by k) as before_pause_seconds from plan.asked)
),
-- No turn takes longer than this: all of a lost prompt is computed, and its restore may fail.
longest as (
  select
    *,
    frontend_by(turn)
    + queue_by(turn)
    + case when wish in ('restored', 'restore_failed') then restoring_by(turn, prompt) else 0 end
    + computing_by(
      turn,
      prompt - case when wish = 'kept' then stored_by(engine, before_prompt, before_output) else 0 end
    ) * 2
    + output * 15_000_000 as most_ns
  from wishes
),
timed as (
  select
    * exclude (begin_ns, before_pause_seconds),
    (
      begin_ns
      + sum(most_ns) over so_far
      - most_ns
      + sum((pause_seconds * 1e9)::bigint) over so_far
    )::bigint as start_ns
  from longest
  window so_far as (partition by conversation order by k)
)
select *, row_number() over (partition by engine order by start_ns, turn) as place
from timed;
