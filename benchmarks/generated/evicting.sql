-- One row an eviction from the device: what ``owner`` had published, when it went and for whom. ``how`` is lost (the conversation
-- came back for it), compacted (it stands within a longer snapshot) or ended (nobody asked again).
--
-- A snapshot engine evicts a turn's two snapshots, the deeper first; a block engine the blocks of a turn in two halves (part 0: the
-- tail), the last turn's first. Evictors are turns of the same engine that came after the last use and before the next.
create table plan.evicted as
with snapshots as (
  select
    turn,
    engine,
    app,
    epoch,
    part,
    null::bigint as first_block,
    null::bigint as end_block,
    case when part = 0 then prompt - seen else output end as tokens,
    case when part = 0 then token_ns else end_ns end as published_ns,
    case when next_fate in ('kept', 'disabled') and next2_fate = 'skipped' then turn + 2 else turn + 1 end as compactor,
    case when next_fate in ('kept', 'disabled') and next2_fate = 'skipped' then next2_end_ns else next_end_ns end as compacted_ns,
    case
      when next_fate in ('restored', 'restore_failed', 'evicted') then 'lost'
      when next_fate in ('kept', 'disabled') then 'compacted'
      else 'ended'
    end as how,
    turn as last_turn,
    end_ns as used_ns,
    next_fate,
    next_place,
    next_admit_ns,
    after_place,
    0 as order_in_run,
    1 - part as half,
    1 as run_turns
  from plan.decided, (values (0), (1)) as parts(part)
  where has_snapshots(engine) and not coalesce(skips, false) and (part = 0 or not too_short(engine, output))
),
owners as (
  select
    turn,
    engine,
    app,
    epoch,
    case when turn = run then hit else cut(engine, before_prompt + before_output) end // 16 as first_block,
    cut(engine, prompt + output) // 16 as end_block,
    token_ns,
    row_number() over backwards - 1 as order_in_run,
    count(*) over (partition by run) as run_turns,
    first_value(turn) over backwards as last_turn,
    first_value(end_ns) over backwards as used_ns,
    first_value(next_fate) over backwards as next_fate,
    first_value(next_place) over backwards as next_place,
    first_value(next_admit_ns) over backwards as next_admit_ns,
    first_value(after_place) over backwards as after_place
  from plan.decided
  where not has_snapshots(engine)
  window backwards as (partition by run order by k desc)
),
blocks as (
  select
    turn,
    engine,
    app,
    epoch,
    half as part,
    case when half = 1 then first_block else first_block + (end_block - first_block + 1) // 2 end as first_block,
    case when half = 1 then first_block + (end_block - first_block + 1) // 2 else end_block end as end_block,
    token_ns as published_ns,
    case when next_fate in ('restored', 'restore_failed', 'evicted') then 'lost' else 'ended' end as how,
    last_turn,
    used_ns,
    next_fate,
    next_place,
    next_admit_ns,
    after_place,
    order_in_run,
    half,
    run_turns
  from owners, (values (0), (1)) as halves(half)
),
candidates as (
  select *, null::bigint as compactor, null::bigint as compacted_ns, (end_block - first_block) * 16 as tokens
  from blocks
  where end_block > first_block
  union all by name
  from snapshots
),
aimed as (
  select
    *,
    case how
      when 'lost' then after_place + ((next_place - after_place) * (2 * order_in_run + half) // (2 * run_turns))
      when 'ended' then after_place + 100 + floor(2900 * draw('ended', last_turn))::bigint + order_in_run
    end as evictor_place
  from candidates
),
met as (
  select
    a.*,
    coalesce(e.turn, a.compactor) as evictor,
    -- Room is made when the request comes, before its admission.
    coalesce(e.start_ns + 1_000_000 + a.half * 1_000_000 + 2 * a.order_in_run, a.compacted_ns) as at_ns
  from aimed as a
  left join plan.decided as e on e.engine = a.engine and e.place = a.evictor_place
  where a.how = 'compacted' or e.turn is not null
),
hosted as (
  select
    *,
    has_host(engine)
    and (
      next_fate in ('restored', 'restore_failed') and how = 'lost'
      or draw('host', 2 * turn + part) < case how when 'lost' then 0.5 when 'ended' then 0.3 else 0 end
    ) as to_host
  from met
)
select
  at_ns,
  engine,
  app,
  epoch,
  evictor,
  turn as owner,
  part,
  how,
  first_block,
  end_block,
  case when how <> 'compacted' then tokens end as tokens,
  published_ns,
  used_ns,
  -- From the host it goes later; or so soon that the conversation finds it gone there, too.
  case
    when to_host and how = 'lost' and next_fate = 'evicted' then (at_ns + next_admit_ns) // 2
    when to_host then at_ns + (3600e9 * (1 + draw('host end', turn)))::bigint
  end as host_end_ns
from hosted
order by at_ns;
