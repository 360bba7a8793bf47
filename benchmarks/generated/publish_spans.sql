-- Publishes to the device that end within a window: of a prompt with its first token (part 0) and of the answer at the end
-- (part 1); of an application's first turn its system prompt as well (part 2, where the engine keeps snapshots).
create or replace temp macro publish_spans(from_ns, until_ns) as table
with turns as (
  select
    *,
    unnest(case when has_snapshots(engine) and fate = 'founder' and system_tokens(app) > 0 then [0, 1, 2] else [0, 1] end)
      as part
  from plan.decided
  where end_ns >= from_ns and start_ns < until_ns
),
placed as (
  select
    *,
    case when part = 0 then case when turn = run then hit else seen end else prompt end // 16 as first_block,
    case when part = 0 then prompt else prompt + output end // 16 as end_block,
    case when part = 1 then end_ns - least(output * 7_000_000, 150_000_000) else token_ns end as begun_ns,
    case when part = 1 then end_ns else token_ns + least(output * 7_000_000, 150_000_000) end as done_ns
  from turns
),
published as (
  select
    *,
    case
      when not has_snapshots(engine) then block_keys(app, turn, epoch, first_block, end_block)
      when part = 2 then [system_key(app)]
      else [snapshot_key(turn, part)]
    end as all_keys,
    case part when 0 then prompt when 1 then prompt + output else system_tokens(app) end as position
  from placed
  where done_ns >= from_ns and done_ns < until_ns and (has_snapshots(engine) or end_block > first_block)
)
select
  'snapshot.publish' as name,
  trace_of_turn(turn) as trace_id,
  case when part = 2 then span_of('publish system', turn) else span_of('publish', 2 * turn + part) end as span_id,
  span_of('turn', turn) as parent_span_id,
  -- Blocks are there at once; a snapshot takes its time.
  case when has_snapshots(engine) then begun_ns else done_ns end as start_ns,
  done_ns as end_ns,
  resource_of(engine) as resource_id,
  name_of_turn(turn) as turn_id,
  request_of_turn(turn) as request_id,
  conversation_of_turn(turn) as conversation_id,
  all_keys[-1] as key,
  all_keys as keys,
  case
    when not has_snapshots(engine) then case when first_block > 0 then block_key(app, turn, epoch, first_block - 1) end
    when part = 1 then snapshot_key(turn, 0)
    when part = 2 then null
    when not first then snapshot_key(turn - 1, 1)
    when system_tokens(app) > 0 then system_key(app)
  end as parent_key,
  case when not has_snapshots(engine) then 16 end as tokens_each,
  case when has_snapshots(engine) then position end as key_tokens,
  case when has_snapshots(engine) then position else 16 * len(all_keys) end as tokens,
  'device' as tier,
  case
    when has_snapshots(engine) and part < 2 and (coalesce(skips, false) or (part = 1 and too_short(engine, output)))
      then 'skipped'
    else 'committed'
  end as outcome,
  case
    when not has_snapshots(engine) or part = 2 then null
    when coalesce(skips, false) then 'busy'
    when part = 1 and too_short(engine, output) then 'min_span'
  end as reason,
  case when has_snapshots(engine) then 1 end as slots,
  case when has_snapshots(engine) then case part when 0 then 'speaker_change' when 1 then 'turn_end' else 'page' end end as trigger
from published;
