-- Admissions, prefills and restores that end within a window. A preempted turn has two admissions and two prefills.
create or replace temp macro work_spans(from_ns, until_ns) as table
with turns as (
  select
    *,
    case when preempted then seen + greatest((prompt - seen) // 2, 1) end as reached,
    -- The first key that the device did not have.
    case
      when has_snapshots(engine) and fate in ('restored', 'restore_failed', 'evicted') then snapshot_key(turn - 1, 0)
      when has_snapshots(engine) and hit < seen then snapshot_key(turn - 1, 1)
      when has_snapshots(engine) then snapshot_key(turn, 0)
      when (hit // 16 + 1) * 16 <= prompt then block_key(app, turn, epoch, hit // 16)
    end as missing_key
  from plan.decided
  where end_ns >= from_ns and start_ns < until_ns
),
attempts as (
  select *, unnest(case when preempted then [1, 2] else [1] end) as attempt
  from turns
),
spans as (
  select
    'scheduler.admit' as name,
    turn,
    engine,
    span_of('admit', 4 * turn + attempt) as span_id,
    case when attempt = 1 then start_ns + frontend_by(turn) else admit_ns + compute_ns * 2 // 5 end as start_ns,
    case when attempt = 1 then admit_ns else admit_ns + compute_ns // 2 end as end_ns,
    attempt,
    hit as admit_hit_tokens,
    offered as admit_offered_tokens,
    0 as admit_lease_tokens,
    hit as admit_local_tokens,
    missing_key as admit_missing_key,
    case when attempt = 1 and draw('retried', turn) < 0.03 then 1 else 0 end as retries,
    case when attempt = 1 and draw('retried', turn) < 0.03 then ['no_room'] end as retry_reasons,
    case when offered > 0 then 'host' end as tier,
    case when has_snapshots(engine) then floor(4 * draw('free slots', turn))::bigint end as free_slots,
    case when has_snapshots(engine) then 512 end as total_slots,
    (2e6 * (0.3 + 0.4 * draw('free tokens', turn)))::bigint as free_tokens,
    2_000_000 as total_tokens,
    floor(12 * draw('running', turn))::bigint as running,
    floor(3 * draw('waiting', turn))::bigint as waiting
  from attempts
  union all by name
  select
    'prefill' as name,
    turn,
    engine,
    span_of('prefill', 4 * turn + attempt) as span_id,
    case when attempt = 1 then admit_ns + restore_ns else admit_ns + compute_ns // 2 end as start_ns,
    case when attempt = 1 and preempted then admit_ns + compute_ns * 2 // 5 else token_ns end as end_ns,
    attempt,
    hit + restored as first_token,
    case when attempt = 1 and preempted then reached else prompt end as last_token,
    case when attempt = 1 and preempted then name_of_turn(turn - 512) end as preempted_by,
    1 + (prompt - hit - restored) // 2048 as steps,
    case when attempt = 1 and preempted then reached else prompt end - hit - restored as tokens,
    case when attempt = 1 and preempted then 'preempted' else 'done' end as outcome
  from attempts
  union all by name
  select
    'snapshot.restore' as name,
    turn,
    engine,
    span_of('restore', turn) as span_id,
    admit_ns as start_ns,
    admit_ns + restore_ns as end_ns,
    1 as attempt,
    case
      when has_snapshots(engine) then snapshot_key(turn - 1, case when too_short(engine, before_output) then 0 else 1 end)
      else block_key(app, turn, epoch, seen // 16 - 1)
    end as key,
    offered as tokens,
    'host' as tier,
    case
      when fate = 'restored' then 'verified'
      when draw('failure', turn) < 0.4 then 'timed_out'
      else 'failed'
    end as outcome,
    case
      when fate = 'restored' then null
      when draw('failure', turn) < 0.4 then 'timeout'
      when draw('failure', turn) < 0.7 then 'absent'
      else 'corrupt'
    end as reason,
    hit + restored as valid_prefix_tokens,
    1 as ranks,
    [{'trace_id': trace_of_turn(turn - 1), 'span_id': span_of('publish', 2 * (turn - 1) + 1), 'attributes': null::varchar}] as links
  from turns
  where offered > 0
)
select
  * exclude (turn, engine),
  trace_of_turn(turn) as trace_id,
  span_of('turn', turn) as parent_span_id,
  resource_of(engine) as resource_id,
  name_of_turn(turn) as turn_id,
  request_of_turn(turn) as request_id,
  conversation_of_turn(turn) as conversation_id
from spans
where end_ns >= from_ns and end_ns < until_ns;
