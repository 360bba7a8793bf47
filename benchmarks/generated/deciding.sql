-- What becomes of each turn: as wished, where another turn of its engine came in between that could have needed the room. With
-- who had brought its prefix, and when.
--
-- ``after_place`` is the first turn of the engine that comes after this one has ended: only such a one can have evicted it.
-- ``run`` is the turn with which the device began to hold this conversation without a break; it has published all of it.
create table plan.decided as
with free as (
  select w.*, after.place as after_place
  from plan.wished as w
  asof left join plan.wished as after on after.engine = w.engine and after.start_ns > w.start_ns + w.most_ns
),
paired as (
  select
    *,
    lag(after_place) over in_order as before_after_place,
    row_number() over (partition by engine, app order by start_ns, turn) = 1 as is_founder,
    first_value(turn) over of_app as founder,
    first_value(start_ns) over of_app as founder_ns,
    lag(start_ns) over of_app as app_used_ns
  from free
  window
    in_order as (partition by conversation order by k),
    of_app as (partition by engine, app order by start_ns, turn)
),
fated as (
  select
    *,
    case
      when is_founder then 'founder'
      when wish in ('restored', 'restore_failed', 'evicted') and not coalesce(before_after_place < place, false) then 'kept'
      else wish
    end as fate
  from paired
),
placed as (
  select
    * exclude (wish, before_after_place, is_founder),
    seen_by(fate, engine, app, before_prompt, before_output) as seen,
    hit_by(fate, engine, app, before_prompt, before_output, before_first, before2_prompt, before2_output) as hit,
    restored_by(fate, engine, app, before_prompt, before_output) as restored,
    case
      when fate in ('restored', 'restore_failed') then stored_by(engine, before_prompt, before_output) - system_tokens(app)
      else 0
    end as offered,
    draw('preempted', turn) < 0.005 and fate in ('kept', 'first', 'founder') as preempted
  from fated
),
timed as (
  select
    *,
    start_ns + frontend_by(turn) + queue_by(turn) as admit_ns,
    restoring_by(turn, offered) as restore_ns,
    (computing_by(turn, prompt - hit - restored) * case when preempted then 1.6 else 1 end)::bigint as compute_ns,
    fate in ('first', 'founder', 'restored', 'restore_failed', 'evicted') as begins_run
  from placed
),
ended as (
  select
    *,
    admit_ns + restore_ns + compute_ns as token_ns,
    admit_ns + restore_ns + compute_ns + output * 15_000_000 as end_ns,
    last_value(case when begins_run then turn end ignore nulls) over (partition by conversation order by k) as run
  from timed
)
select
  * exclude (begins_run, most_ns),
  lag(token_ns) over in_order as before_token_ns,
  lag(end_ns) over in_order as before_end_ns,
  lag(token_ns, 2) over in_order as before2_token_ns,
  lag(run) over in_order as before_run,
  lead(fate) over in_order as next_fate,
  lead(place) over in_order as next_place,
  lead(admit_ns) over in_order as next_admit_ns,
  lead(end_ns) over in_order as next_end_ns,
  lead(fate, 2) over in_order as next2_fate,
  lead(end_ns, 2) over in_order as next2_end_ns,
  case
    when draw('incomplete', turn) < 0.005 then 'records'
    when draw('incomplete', turn) < 0.01 then 'positions'
  end as incomplete,
  -- The turn after it says whether this one published: nothing but its own draw and what came before decides.
  lead(fate) over in_order = 'skipped' as skips
from ended
window in_order as (partition by conversation order by k)
order by start_ns, turn;
