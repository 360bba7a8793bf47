-- What view causes shows, told from the spans: one row a span of a prompt's tokens, where its KV came from, and why it was not better.
-- Table _cause_facts keeps it up to date (queries/folding.py); this view over a whole store is slow.
--
-- Of a key's life counts what happened from an hour before its provider had it (and to a turn without provider, all of it), and a
-- publish that ends later than an hour after the admission was not pending. So an event that comes late changes few turns.
--
-- The primary cause is the first that applies, in the order of the model; others that hold too are in the evidence.
--
-- Example: 9,000 tokens were evicted from slot to slot-hungry neighbours, 400 are this turn's own text:
--
--   start_token  end_token  source      cause                  confidence  evicted_by_turn
--   0            9000       recomputed  evicted.slots          observed    agent-1-t11
--   9000         9400       new         first_seen.new_tokens  derived
--
-- columns
--   turn_id VARCHAR -- the turn
--   start_token BIGINT -- first position [tokens]
--   end_token BIGINT -- position past the last [tokens]
--   source VARCHAR -- hit, restored, recomputed, new, computed (S unknown) or unobserved
--   cause VARCHAR -- class.detail
--   confidence VARCHAR -- observed (an event says it), derived (it follows) or assumed (the most likely of what remains)
--   evidence VARCHAR[] -- spans that show it (name, id) and other causes that hold as well
--   missing_evidence VARCHAR -- what would have to be known to be sure; null where nothing
--   provided_by_turn VARCHAR -- the turn that had published or computed this prefix
--   evicted_by_turn VARCHAR -- the turn that needed the room, of an eviction or a preemption
--   provided_ns BIGINT -- when the provider had it [ns]
--   used_ns BIGINT -- when the prefix was last used before this turn [ns]
--   key VARCHAR -- the first missing key; of a hit the first key of the span
--   origin VARCHAR -- turn, lease or session of a hit; lost where a preemption took it; else null
--   evicted_ns BIGINT -- when the eviction or the preemption took place [ns]
--   evict_span_id VARCHAR -- its span
--   restore_span_id VARCHAR -- the restore that failed or was skipped
--   held_by VARCHAR -- where it was held all the same: the tier of a restore that was skipped, another replica or slot
--   changed_message VARCHAR -- of a changed prompt: the first message that is not the same, for example message 1 (system)
--   admitted_ns BIGINT -- the admission that decided [ns]
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   resource_id VARCHAR -- the engine start
--   eviction STRUCT(at_ns BIGINT, by_turn VARCHAR, reason VARCHAR, tokens BIGINT, keys BIGINT, idle_seconds DOUBLE, free_slots BIGINT, total_slots BIGINT, free_tokens BIGINT, total_tokens BIGINT, "policy" VARCHAR, span_id VARCHAR) -- the eviction that explains it, with what was free then; null where none does
--   turn_start_ns BIGINT -- arrival of the turn [ns]
create or replace view _told_causes as
with own_spans as (
  select
    trace_id,
    parent_span_id as turn_span_id,
    count(distinct attempt) filter (name = 'scheduler.admit') as admitted_attempts,
    count(*) filter (name = 'prefill' and outcome = 'preempted') as preemptions,
    count(*) filter (name = 'snapshot.restore') as restores
  from spans
  where name in ('scheduler.admit', 'prefill', 'snapshot.restore')
  group by all
),
own_restores as (
  select
    trace_id,
    parent_span_id as turn_span_id,
    attempt,
    count(*) filter (name = 'scheduler.admit' and admit_offered_tokens > 0) as offers,
    count(*) filter (name = 'snapshot.restore' and outcome is distinct from 'skipped') as restores,
    count(*) filter (name = 'snapshot.restore' and outcome = 'skipped') as skips  -- of which some had been offered
  from spans
  where name in ('scheduler.admit', 'snapshot.restore')
  group by all
),
parts as (
  select
    p.*,
    -- What is told of a turn that has ended has to be there whole, or an earlier admission or restore would stand in its place.
    coalesce(t.end_ns is not null and t.attempts > coalesce(o.admitted_attempts, 0), false) as admission_lost,
    coalesce(t.end_ns is not null and w.offers not between w.restores and w.restores + w.skips, false)
      or coalesce(t.restores > o.restores, false) as restore_lost,
    coalesce(t.end_ns is not null and t.attempts - 1 > o.preemptions, false) as preemption_lost,
    -- A hit needs no explanation, and of what is new no key was ever there.
    case when p.source in ('recomputed', 'restored', 'computed') then p.key end as missing_key,
    -- What the recorder knew to explain it, and what never came: then an older event must not stand in its place.
    case
      when p.source in ('recomputed', 'restored', 'computed')
        and p.fate_span_id not in (select span_id from spans where name in ('snapshot.publish', 'snapshot.evict'))
        then p.fate_span_id
    end as lost_span_id,
    t.start_ns as turn_start_ns,
    t.cache_disabled,
    t.prompt_tokens,
    t.seen_tokens,
    t.seen_basis,
    t.seen_since_ns,
    t.incomplete_reasons,
    a.span_id as admit_span_id,
    -- What an earlier attempt computed had gone before the first admission.
    case when p.in_kept and p.source = 'recomputed' then a.first_at_ns else a.at_ns end as admitted_ns,
    a.hit_tokens as admit_hit_tokens,
    a.matched_tokens,
    a.not_restorable,
    a.not_restorable_reason,
    a.elsewhere,
    a.elsewhere_tokens,
    a.elsewhere_holder,
    greatest(coalesce(r.unit_tokens, 1), 1) as unit_tokens,
    -- What is new is known to be new only to who has followed the conversation and forgotten nothing.
    coalesce(t.start_ns > began.first_ns and t.seen_since_ns <= r.recorder_started_ns, false) as followed
  from _spans_of_prompt as p
  join _turn_spans as t on t.trace_id = p.trace_id and t.span_id = p.turn_span_id
  left join _admissions as a on a.trace_id = p.trace_id and a.turn_span_id = p.turn_span_id
  left join own_spans as o on o.trace_id = p.trace_id and o.turn_span_id = p.turn_span_id
  left join own_restores as w on w.trace_id = p.trace_id and w.turn_span_id = p.turn_span_id and w.attempt = a.attempt
  left join resources as r on r.resource_id = p.resource_id
  left join (
    select resource_id, conversation_id, min(start_ns) as first_ns
    from spans
    where name = 'turn' and conversation_id is not null
    group by all
  ) as began on began.resource_id = t.resource_id and began.conversation_id = t.conversation_id
),
on_device as (
  select * from _key_events where tier = 'device'
),
elsewhere as (
  select *
  from _key_events
  where tier <> 'device'
  qualify row_number() over (partition by resource_id, key, at_ns order by event = 'evicted' desc, tier) = 1
),
-- The first publish after the admission by another turn, which had computed the key before or was at it.
later as (
  select
    parts.trace_id,
    parts.turn_span_id,
    parts.start_token,
    first(events.span_id order by events.at_ns, events.span_id) as span_id
  from parts
  join on_device as events
    on events.resource_id = parts.resource_id
    and events.key = parts.missing_key
    and events.at_ns > parts.admitted_ns
    and events.at_ns <= parts.admitted_ns + 3_600_000_000_000
  where events.event = 'committed'
    and events.turn_id is distinct from parts.turn_id
    and (events.turn_id is not distinct from parts.provider or events.begun_ns <= parts.admitted_ns)
  group by all
),
-- The latest event of the first missing key before the admission.
looked_up as (
  select
    parts.*,
    case
      when parts.lost_span_id is null and before.span_id is not null and before.at_ns >= coalesce(parts.provided_ns, 0) - 3_600_000_000_000 then {
        'event': before.event,
        'reason': before.reason,
        'turn_id': before.turn_id,
        'at_ns': before.at_ns,
        'span_id': before.span_id,
        'eviction': before.eviction
      }
    end as own,
    case when parts.lost_span_id is null then later.span_id end as next_span_id,
    case when other.event = 'evicted' and other.at_ns >= coalesce(parts.provided_ns, 0) - 3_600_000_000_000 then 'evicted.' || coalesce(other.reason, 'unspecified') || ' (' || other.tier || ')' end
      as is_evicted_elsewhere,
    -- Where nothing ever happened to it on the device, as far as the recorder knew, the other tier is where it was.
    case when is_evicted_elsewhere is not null and before.span_id is null and parts.fate_span_id is null then 'evicted.' || coalesce(other.reason, 'unspecified') end
      as only_elsewhere,
    other.span_id as elsewhere_span_id
  from parts
  asof left join on_device as before
    on parts.resource_id = before.resource_id and parts.missing_key = before.key and parts.admitted_ns >= before.at_ns
  asof left join elsewhere as other
    on parts.resource_id = other.resource_id and parts.missing_key = other.key and parts.admitted_ns >= other.at_ns
  left join later
    on later.trace_id = parts.trace_id and later.turn_span_id = parts.turn_span_id and later.start_token = parts.start_token
),
-- A prefix is usable only as far as it is whole: where a key itself is still there, what broke the prefix above it explains it.
broken as (
  select
    *,
    case
      when own.event is distinct from 'committed' then own
      else coalesce(
        last_value(case when own.event <> 'committed' then own end ignore nulls) over (
          partition by trace_id, turn_span_id order by start_token rows between unbounded preceding and 1 preceding
        ),
        own
      )
    end as found,
    own.event is not distinct from 'committed' as inherited
  from looked_up
),
with_events as (
  select
    *,
    found.event as event,
    found.reason as event_reason,
    found.turn_id as event_turn_id,
    found.at_ns as event_ns,
    found.span_id as event_span_id,
    found.eviction as event_eviction
  from broken
),
-- Everything that holds, each null where it does not.
judged as (
  select
    e.*,
    f.span_id as failed_restore_span_id,
    p.span_id as preempted_span_id,
    case when in_left then 'prefix_changed.' || c.detail end as is_prefix_changed,
    c.previous_span_id,
    c.previous_turn_id,
    c.has_messages,
    'message ' || c.changed_message || coalesce(' (' || c.changed_role || ')', '') as changed_message,
    case when not preemption_lost then p.by_turn end as preempted_by,
    p.at_ns as preempted_ns,
    case when origin = 'lost' then 'preempted.self_recompute' end as is_preempted,
    case when cache_disabled is not null then 'disabled.' || cache_disabled end as is_disabled,
    case
      when coalesce(end_token <= matched_tokens, source = 'recomputed') then 'state_not_restorable.' || not_restorable
    end as is_not_restorable,
    case
      when in_unit or seen_tokens is null then null
      when seen_tokens < unit_tokens then 'granularity.below_unit'
      when seen_tokens >= prompt_tokens then 'granularity.last_token'
      else 'granularity.partial_unit'
    end as is_granularity,
    case
      when f.span_id is null or not in_offer then null
      when f.outcome = 'timed_out' then 'restore_failed.timeout'
      when f.outcome in ('cancelled', 'stale') then 'restore_failed.' || f.outcome
      when f.reason in ('absent', 'corrupt', 'timeout', 'partial', 'cancelled', 'stale') then 'restore_failed.' || f.reason
      when f.valid_prefix_tokens > coalesce(admit_hit_tokens, 0) then 'restore_failed.partial'
      else 'restore_failed.unspecified'
    end as is_restore_failed,
    -- A tier whose reach is not known is believed to have what had been seen, and no more.
    k.span_id as skipped_restore_span_id,
    k.tier as skipped_tier,
    k.reason as skipped_reason,
    k.prefix_tokens as skipped_tokens,
    case
      when coalesce(end_token <= k.prefix_tokens, source in ('recomputed', 'computed')) then 'restore_skipped.' || k.detail
    end as is_restore_skipped,
    h.held_replica,
    h.held_span_id,
    case
      when coalesce(end_token <= elsewhere_tokens, source = 'recomputed') and elsewhere is not null then 'placement.' || elsewhere
      when h.held_replica is not null and event is distinct from 'committed' then 'placement.other_replica'
    end as is_placement,
    case
      when event = 'skipped' and event_reason = 'output_not_cached' then 'not_published.output_not_cached'
      when event = 'skipped' then 'not_published.skipped_' || coalesce(event_reason, 'unspecified')
      when event in ('failed', 'cancelled') then 'not_published.' || event
      when event is null and next_span_id is not null then 'not_published.pending'
    end as is_not_published,
    case when event = 'evicted' then 'evicted.' || coalesce(event_reason, 'unspecified') end as is_evicted
  from with_events as e
  left join _failed_restores as f using (trace_id, turn_span_id)
  left join _skipped_restores as k using (trace_id, turn_span_id)
  left join _preemptions as p using (trace_id, turn_span_id)
  left join _changed_prompts as c using (trace_id, turn_span_id)
  left join _placements as h
    on h.trace_id = e.trace_id
    and h.turn_span_id = e.turn_span_id
    and of_source = source
    and coalesce(of_key = key, true)
    and held_tokens >= end_token
),
decided as (
  select
    *,
    case
      when source = 'hit' then 'provided.' || coalesce(nullif(origin, ''), 'turn')
      when source = 'unobserved' then 'unobserved.events_missing'
      when source = 'restored' and admission_lost then 'unobserved.events_missing'
      when source = 'restored' then
        case
          when in_local then 'restore_preferred.longer_span'
          when not in_whole then 'granularity.partial_unit'
          else coalesce(is_not_published, is_evicted, 'unobserved.events_missing')
        end
      when is_preempted is not null then is_preempted
      when source = 'new' and coalesce(is_not_restorable, is_restore_skipped, is_placement) is not null and is_disabled is not null
        then is_disabled
      when source = 'new' and coalesce(is_prefix_changed, is_not_restorable, is_restore_skipped, is_placement) is not null
        then coalesce(is_prefix_changed, is_not_restorable, is_restore_skipped, is_placement)
      -- Where it was held, or that its state was not to be had, the admission would have said.
      when source = 'new' and admission_lost then 'unobserved.events_missing'
      when source = 'new' and seen_tokens = 0 and previous_span_id is null then 'first_seen.new_conversation'
      when source = 'new' then 'first_seen.new_tokens'
      else
        coalesce(
          is_disabled,
          case when not admission_lost then is_not_restorable end,
          is_granularity,
          case when admission_lost or restore_lost then 'unobserved.events_missing' end,
          is_restore_failed,
          is_restore_skipped,
          is_placement,
          is_not_published,
          is_evicted,
          only_elsewhere,
          'unobserved.events_missing'
        )
    end as cause
  from judged
)
select
  turn_id,
  start_token,
  end_token,
  source,
  cause,
  case
    when source = 'unobserved' then 'derived'
    when cause like 'unobserved.%' then 'assumed'
    when cause like 'preempted.%' and preemption_lost then 'derived'
    when cause = 'first_seen.new_tokens' and seen_basis = 'keys' and followed then 'derived'
    when cause like 'first_seen.%' or cause in ('prefix_changed.compaction', 'prefix_changed.truncation') then 'assumed'
    when cause like 'prefix_changed.%' then 'derived'
    when cause like 'state_not_restorable.%' then case when matched_tokens is null then 'assumed' else 'observed' end
    when cause like 'restore_skipped.%' then case when skipped_tokens is null then 'assumed' else 'observed' end
    when cause like 'placement.%' and end_token <= elsewhere_tokens then 'observed'
    when cause like 'placement.%' then case when held_replica is null then 'assumed' else 'derived' end
    when seen_basis = 'conversation' and source = 'recomputed' then 'assumed'
    when cause like 'granularity.%' or cause = 'not_published.pending' then 'derived'
    when cause like 'evicted.%' and is_evicted is null then 'derived'
    when inherited and (cause like 'evicted.%' or cause like 'not_published.%') then 'derived'
    when cause like 'provided.%' and provider is null then 'assumed'
    else 'observed'
  end as confidence,
  list_filter(
    [
      'scheduler.admit ' || admit_span_id,
      case when cause like 'prefix_changed.%' then 'turn ' || previous_span_id end,
      case when cause like 'prefix_changed.%' then changed_message end,
      case when cause like 'preempted.%' then 'prefill ' || preempted_span_id end,
      case when cause like 'restore_failed.%' then 'snapshot.restore ' || failed_restore_span_id end,
      case when cause like 'restore_skipped.%' then 'snapshot.restore ' || skipped_restore_span_id end,
      case when cause = 'placement.other_replica' then 'snapshot.publish ' || held_span_id end,
      case when cause like 'evicted.%' then 'snapshot.evict ' || coalesce(case when is_evicted is not null then event_span_id end, elsewhere_span_id) end,
      case when cause like 'not_published.%' then 'snapshot.publish ' || coalesce(event_span_id, next_span_id) end,
      case when source in ('recomputed', 'computed') and is_disabled is not null and is_disabled <> cause then 'also ' || is_disabled end,
      case when source = 'recomputed' and is_prefix_changed is not null and is_prefix_changed <> cause then 'also ' || is_prefix_changed end,
      case
        when source = 'recomputed' and is_restore_failed is not null and is_restore_failed <> cause then 'also ' || is_restore_failed
      end,
      case
        when source in ('recomputed', 'computed', 'new') and is_not_restorable is not null and is_not_restorable <> cause
          then 'also ' || is_not_restorable
      end,
      case
        when source in ('recomputed', 'computed', 'new') and is_restore_skipped is not null and is_restore_skipped <> cause
          then 'also ' || is_restore_skipped
      end,
      case
        when source in ('recomputed', 'computed', 'new') and is_placement is not null and is_placement <> cause then 'also ' || is_placement
      end,
      case
        when source in ('recomputed', 'restored') and is_not_published is not null and is_not_published <> cause
          then 'also ' || is_not_published
      end,
      case when source in ('recomputed', 'restored') and is_evicted is not null and is_evicted <> cause then 'also ' || is_evicted end,
      case when source = 'recomputed' and (only_elsewhere is null or cause <> only_elsewhere) then 'also ' || is_evicted_elsewhere end
    ],
    lambda item: item is not null
  ) as evidence,
  case
    when source = 'unobserved' then 'the events of these positions'
    when cause like 'unobserved.%' and admission_lost then 'an admission of this turn'
    when cause like 'unobserved.%' and restore_lost then 'a restore of this turn, or the admission that offered it'
    when cause like 'unobserved.%' and lost_span_id is not null
      then 'span ' || lost_span_id || ', which the recorder knew, has not come'
    when cause like 'unobserved.%' and key is null then 'prefix keys of this prompt: without them no eviction or publish can be found'
    when cause like 'unobserved.%' and event = 'committed' then 'the reason why key ' || key || ', which the events leave on the device, was not used'
    when cause like 'unobserved.%' then 'a publish or an eviction of key ' || key || ' on the device'
    when cause = 'first_seen.new_conversation' or (cause = 'first_seen.new_tokens' and seen_basis = 'keys' and not followed)
      then 'what was held before ' || strftime(make_timestamp(coalesce(seen_since_ns, 0) // 1000), '%Y-%m-%d %H:%M:%S')
    when cause like 'first_seen.%' and seen_basis <> 'keys' then 'prefix keys of this prompt'
    when seen_basis = 'conversation' and source = 'recomputed' then 'prefix keys: what had been seen is estimated from the previous turn'
    when cause like 'prefix_changed.%' and not has_messages then 'digests of the messages: which one is not the same'
    when cause in ('prefix_changed.compaction', 'prefix_changed.truncation') then 'who made the prompt shorter, and why'
    when cause like 'state_not_restorable.%' and matched_tokens is null then 'how far the tokens matched what the engine had'
    when cause = 'state_not_restorable.unspecified'
      then 'what ' || not_restorable_reason || ' means: it is none of the known reasons'
    when cause like 'placement.%' and elsewhere_tokens is null and held_replica is null then 'how much of this prompt was held there'
    when cause like 'restore_skipped.%' and skipped_tokens is null then 'how much of this prompt that tier had'
    when cause = 'restore_skipped.unspecified' then 'what ' || skipped_reason || ' means: it is none of the known reasons'
    when cause = 'restore_failed.unspecified' then 'the reason that the engine had'
    when cause like 'provided.%' and provider is null then 'the publish that provided it'
  end as missing_evidence,
  case when cause like 'prefix_changed.%' then previous_turn_id else provider end as provided_by_turn,
  case
    when cause like 'preempted.%' then preempted_by
    when is_evicted is not null and source in ('recomputed', 'restored') then event_turn_id
  end as evicted_by_turn,
  provided_ns,
  used_ns,
  key,
  nullif(origin, '') as origin,
  case
    when cause like 'preempted.%' then preempted_ns
    when is_evicted is not null and source in ('recomputed', 'restored') then event_ns
  end as evicted_ns,
  case
    when cause like 'preempted.%' then null
    when is_evicted is not null and source in ('recomputed', 'restored') then event_span_id
  end as evict_span_id,
  case
    when cause like 'restore_failed.%' then failed_restore_span_id
    when cause like 'restore_skipped.%' then skipped_restore_span_id
  end as restore_span_id,
  case
    when cause like 'restore_skipped.%' then skipped_tier
    when cause like 'placement.%' then coalesce(elsewhere_holder, held_replica)
  end as held_by,
  case when cause like 'prefix_changed.%' then changed_message end as changed_message,
  admitted_ns,
  trace_id,
  turn_span_id,
  resource_id,
  case when is_evicted is not null and source in ('recomputed', 'restored') and cause not like 'preempted.%' then event_eviction end
    as eviction,
  turn_start_ns
from decided;
