-- The turns of both sides of a comparison, with what its figures need. ``names_of`` says what ``a`` and ``b`` are names of: run, version
-- or engine; null where only times tell the sides apart. The other arguments narrow one side, or both; null means any.
--
-- A turn ``continues`` when its conversation grew by less than 10,000 tokens since the turn before, whichever side that one is on.
-- The turn before is one of the same engine, run and version: benchmarks use the ids of their conversations again. Looking it up
-- before time cuts anything off is what makes the first turn of a range a continuation, too.
--
-- Example: from _compared_turns('run', 'before', 'after', null, null, null, null, null, null) where conversation x grew from 100 to
-- 140 tokens in run after:
--
--   side  cluster         prompt_tokens  continues
--   b     conversation x  100            false
--   b     conversation x  140            true
create or replace macro _compared_turns(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run) as table
with named as (
  select
    t.*,
    r.engine_version,
    case coalesce(names_of, '')
      when 'run' then t.run
      when 'version' then r.engine_version
      when 'engine' then t.engine
      when '' then null
      else error('Nothing is compared by ' || names_of || ': run, version or engine.')
    end as name
  from turns as t
  left join resources as r using (resource_id)
  where (the_engine is null or t.engine = the_engine) and (the_run is null or t.run = the_run)
),
grown as (
  select
    *,
    prompt_tokens - lag(prompt_tokens ignore nulls) over (
      partition by engine, run, engine_version, conversation_id
      order by start_ns, trace_id, span_id
    ) as grown_tokens
  from named
  where names_of is null or name in (a, b)
),
sides as (
  select 'a' as side, a as name, a_since as since_ns, a_until as until_ns
  union all
  select 'b', b, b_since, b_until
)
select
  s.side,
  -- What is drawn again and again together: turns of one conversation are not independent of each other.
  coalesce('conversation ' || g.conversation_id, 'turn ' || g.trace_id || g.span_id) as cluster,
  g.complete,
  g.prompt_tokens,
  g.seen_tokens,
  g.hit_tokens,
  g.restored_tokens,
  g.computed_tokens,
  g.recomputed_tokens,
  g.new_tokens,
  g.conversation_id is not null and coalesce(g.grown_tokens < 10_000, false) as continues,
  2 * g.hit_tokens < g.prompt_tokens as below_hit,
  2 * (g.hit_tokens + g.restored_tokens) < g.prompt_tokens as below_cached,
  g.ttft_seconds,
  g.total_seconds,
  case
    -- A turn that no cache could have helped is in no row of turn_costs, and lost nothing.
    when c.trace_id is not null then c.lost_seconds
    when g.verdict in ('hit', 'restored', 'recomputed', 'cold') then 0
  end as lost_seconds,
  g.not_cache_seconds,
  g.verdict,
  g.main_cause
from grown as g
join sides as s
  on (names_of is null or g.name = s.name)
  and (s.since_ns is null or g.start_ns >= s.since_ns)
  and (s.until_ns is null or g.start_ns < s.until_ns)
left join turn_costs as c on c.trace_id = g.trace_id and c.span_id = g.span_id;
