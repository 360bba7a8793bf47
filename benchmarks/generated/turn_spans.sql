-- The turns' own spans that end within a window.
create or replace temp macro turn_spans(from_ns, until_ns) as table
with turns as (
  from plan.decided
  where end_ns >= from_ns and end_ns < until_ns
),
-- What stood for which part of what had been seen: snapshots that each bring back a whole prefix, or the runs of blocks that one
-- turn had published.
provided as (
  select
    t.*,
    case
      when has_snapshots(engine) then list_filter(
        [
          case
            when fate = 'skipped' and not before_first then {
              'upto': hit,
              'owner': turn - 2,
              'key': snapshot_key(turn - 2, case when too_short(engine, before2_output) then 0 else 1 end),
              'since_ns': before2_token_ns,
              'used_ns': before_end_ns
            }
            when fate = 'kept' and too_short(engine, before_output) then {
              'upto': before_prompt,
              'owner': turn - 1,
              'key': snapshot_key(turn - 1, 0),
              'since_ns': before_token_ns,
              'used_ns': before_end_ns
            }
            when fate not in ('kept', 'founder') and system_tokens(app) > 0 then {
              'upto': system_tokens(app),
              'owner': founder,
              'key': system_key(app),
              'since_ns': founder_ns,
              'used_ns': app_used_ns
            }
          end,
          case
            when fate in ('disabled', 'restored', 'restore_failed', 'evicted') then {
              'upto': before_prompt,
              'owner': turn - 1,
              'key': snapshot_key(turn - 1, 0),
              'since_ns': before_token_ns,
              'used_ns': before_end_ns
            }
          end,
          case
            when fate not in ('first', 'founder') then {
              'upto': seen,
              'owner': turn - 1,
              'key': snapshot_key(turn - 1, 1),
              'since_ns': before_end_ns,
              'used_ns': before_end_ns
            }
          end
        ],
        lambda piece: piece is not null
      )
      else
        case
          when fate = 'founder' or system_tokens(app) = 0 or (fate = 'kept' and before_run = founder) then []
          else [
            {
              'upto': system_tokens(app),
              'owner': founder,
              'key': null::varchar,
              'since_ns': founder_ns,
              'used_ns': app_used_ns
            }
          ]
        end
        || case
          when fate in ('first', 'founder') then []
          else list_transform(
            list_filter(range(1, turn - before_run + 1), lambda n: n = 1 or r.ends[n] > r.ends[n - 1]),
            lambda n: {
              'upto': r.ends[n],
              'owner': before_run + n - 1,
              'key': null::varchar,
              'since_ns': r.tokens_ns[n],
              'used_ns': before_end_ns
            }
          )
        end
    end as pieces,
    -- Of a preempted turn: up to where its first attempt came.
    case when preempted then seen + greatest((prompt - seen) // 2, 1) end as reached
  from turns as t
  left join plan.runs as r on r.run = t.before_run and not t.first
),
cut_up as (
  select
    *,
    list_transform(pieces, lambda piece: piece.upto::bigint)
    || case when preempted then [reached::bigint] else [] end
    || [prompt::bigint] as ends,
    prompt - hit - restored as computed,
    case when incomplete = 'positions' then 'unobserved' else 'new' end as rest
  from provided
),
begun as (
  select *, [0::bigint] || ends[:-2] as starts
  from cut_up
),
sourced as (
  select
    *,
    list_transform(
      ends,
      lambda upto: case
        when upto <= hit then 'hit'
        when upto <= hit + restored then 'restored'
        when upto <= seen then 'recomputed'
        else rest
      end
    ) as sources
  from begun
)
select
  'turn' as name,
  trace_of_turn(turn) as trace_id,
  span_of('turn', turn) as span_id,
  null::varchar as parent_span_id,
  start_ns,
  end_ns,
  resource_of(engine) as resource_id,
  name_of_turn(turn) as turn_id,
  request_of_turn(turn) as request_id,
  conversation_of_turn(turn) as conversation_id,
  case when draw('run', conversation) < 0.5 then 'baseline' else 'candidate' end as run,
  'tenant-' || app % 5 as tenant,
  case when has_snapshots(engine) then 'model-a' else 'model-b' end as model,
  prompt as prompt_tokens,
  prompt as input_tokens,
  case when incomplete is null then hit + restored end as cache_read_tokens,
  output as output_tokens,
  2 * k + 2 as message_count,
  case when draw('status', turn) < 0.95 then 'stop' when draw('status', turn) < 0.99 then 'length' else 'abort' end as status,
  incomplete is null as complete,
  case incomplete
    when 'records' then ['records_dropped']
    when 'positions' then ['records_dropped', 'positions_unobserved']
  end as incomplete_reasons,
  case
    when incomplete is not null then 'incomplete'
    when seen = 0 then 'cold'
    when seen - hit - restored >= greatest(restored, hit) then 'recomputed'
    when restored >= hit then 'restored'
    else 'hit'
  end as verdict,
  case when fate = 'disabled' then 'by_request' end as cache_disabled,
  hit as hit_tokens,
  restored as restored_tokens,
  case when incomplete = 'positions' then seen - hit - restored else computed end as computed_tokens,
  seen - hit - restored as recomputed_tokens,
  case when incomplete = 'positions' then 0 else prompt - seen end as new_tokens,
  case when incomplete = 'positions' then prompt - seen else 0 end as unobserved_tokens,
  hit as work_hit_tokens,
  restored as work_restored_tokens,
  case when incomplete = 'positions' then seen - hit - restored else computed + coalesce(reached - hit, 0) end
    as work_computed_tokens,
  0 as wasted_restored_tokens,
  case when incomplete = 'positions' then 0 else coalesce(reached - hit, 0) end as wasted_computed_tokens,
  case when preempted then hit else 0 end as self_recovered_tokens,
  offered - restored as discarded_tokens,
  seen as seen_tokens,
  'keys' as seen_basis,
  greatest(
    getvariable('started_ns'),
    start_ns - case when has_snapshots(engine) then 64_800_000_000_000 else 5_400_000_000_000 end
  ) as seen_since_ns,
  case when preempted then 2 else 1 end as attempts,
  case when draw('retried', turn) < 0.03 then 1 else 0 end as retries,
  starts as segments_start_tokens,
  ends as segments_end_tokens,
  sources as segments_source,
  list_transform(
    range(1, len(ends) + 1),
    lambda n: case
      when sources[n] = 'hit' then 'turn'
      when preempted and n < len(ends) then 'lost'
      else ''
    end
  ) as segments_origin,
  case
    when has_snapshots(engine)
      then list_transform(range(1, len(ends) + 1), lambda n: coalesce(pieces[n].key, snapshot_key(turn, 0)))
    else list_transform(
      starts,
      lambda n: case when (n // 16 + 1) * 16 <= prompt then block_key(app, turn, epoch, n // 16) else '' end
    )
  end as segments_key,
  list_transform(range(1, len(ends) + 1), lambda n: coalesce(name_of_turn(pieces[n].owner), '')) as segments_provider,
  list_transform(range(1, len(ends) + 1), lambda n: coalesce(pieces[n].since_ns, 0)) as segments_provided_ns,
  list_transform(range(1, len(ends) + 1), lambda n: coalesce(pieces[n].used_ns, 0)) as segments_used_ns,
  frontend_by(turn) as frontend_ns,
  queue_by(turn) as queue_ns,
  restore_ns,
  compute_ns,
  token_ns - start_ns as ttft_ns,
  end_ns - start_ns as total_ns,
  case when has_snapshots(engine) then snapshot_key(turn, 0) else block_key(app, turn, epoch, prompt // 16 - 1) end as key,
  case
    when has_snapshots(engine) and fate = 'founder' and system_tokens(app) > 0 then [system_key(app), snapshot_key(turn, 0)]
    when has_snapshots(engine) then [snapshot_key(turn, 0)]
    when prompt // 16 > seen // 16 then block_keys(app, turn, epoch, seen // 16, prompt // 16)
  end as keys,
  case
    when has_snapshots(engine) and fate = 'founder' and system_tokens(app) > 0 then [system_tokens(app)::bigint, prompt::bigint]
    when has_snapshots(engine) then [prompt::bigint]
  end as keys_end_tokens,
  case
    when seen = 0 then null
    when not has_snapshots(engine) then block_key(app, turn, epoch, seen // 16 - 1)
    when first then system_key(app)
    else snapshot_key(turn - 1, 1)
  end as parent_key,
  case when has_snapshots(engine) then prompt else prompt // 16 * 16 end as key_tokens,
  case when not has_snapshots(engine) then 16 end as tokens_each
from sourced;
