-- One row a span of a prompt's tokens with one possible cause: the recorder's segments, cut where the reuse unit ends, where the
-- offer ended, where the usable local copy ended, and where what held for a part of it ended.
--
-- Example: P = 100, unit 16, S = 100, all of it evicted: 0-96 (evicted) and 96-100 (the last token's unit).
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   turn_span_id VARCHAR -- span of the turn
--   resource_id VARCHAR -- the engine start
--   turn_id VARCHAR -- the turn
--   start_token BIGINT -- first position [tokens]
--   end_token BIGINT -- position past the last [tokens]
--   source VARCHAR -- hit, restored, recomputed, new, computed or unobserved
--   origin VARCHAR -- turn, lease or session of a hit; lost where a preemption took it
--   key VARCHAR -- first key past the segment's start; null where there is none
--   provider VARCHAR -- the turn that had brought this prefix
--   provided_ns BIGINT -- when it had [ns]
--   used_ns BIGINT -- when the prefix was last used before this turn [ns]
--   fate_span_id VARCHAR -- the span that says why it was not on the device, as far as the recorder knew
--   in_unit BOOLEAN -- below the last position at which the engine could have reused the seen prefix
--   in_offer BOOLEAN -- within what another tier offered
--   in_local BOOLEAN -- within what was usable on the device
--   in_whole BOOLEAN -- the device can hold it: it lies within the whole units of what had been seen
--   in_left BOOLEAN -- the previous turn's prompt and answer had text here, and the prompt has been changed
--   in_kept BOOLEAN -- an earlier attempt had it, and the last one found it again
create or replace view _spans_of_prompt as
with segments as (
  select
    trace_id,
    span_id as turn_span_id,
    resource_id,
    turn_id,
    prompt_tokens,
    seen_tokens,
    unnest(segments_start_tokens) as start_token,
    unnest(segments_end_tokens) as end_token,
    unnest(segments_source) as source,
    unnest(segments_origin) as origin,
    nullif(unnest(segments_key), '') as key,
    nullif(unnest(segments_provider), '') as provider,
    nullif(unnest(segments_provided_ns), 0) as provided_ns,
    nullif(unnest(segments_used_ns), 0) as used_ns,
    nullif(unnest(segments_fate), '') as fate_span_id
  from _turn_spans
),
edges as (
  select
    segments.*,
    greatest(coalesce(r.unit_tokens, 1), 1) as unit,
    -- Of a prompt seen whole the engine must still compute its last token. Where S is not known there is no edge.
    case when seen_tokens is not null then least(seen_tokens, prompt_tokens - 1) // unit * unit end as unit_edge,
    -- Another tier may keep finer units than the device: what lies past the last whole unit of the device can only be restored.
    case when seen_tokens < prompt_tokens and seen_tokens % unit <> 0 then seen_tokens // unit * unit end as whole_edge,
    a.offer_end_tokens as offer_edge,
    a.local_tokens as local_edge,
    -- What an earlier attempt had computed, and the last found again.
    case when a.attempt > 1 then coalesce(a.hit_tokens, 0) + coalesce(a.lease_tokens, 0) end as kept_edge,
    c.left_tokens as left_edge,
    [a.matched_tokens, k.prefix_tokens, a.elsewhere_tokens, h.held_tokens] as told_edges
  from segments
  left join resources as r using (resource_id)
  left join _admissions as a using (trace_id, turn_span_id)
  left join _changed_prompts as c using (trace_id, turn_span_id)
  left join _skipped_restores as k using (trace_id, turn_span_id)
  left join _placements as h on h.trace_id = segments.trace_id and h.turn_span_id = segments.turn_span_id and h.of_source = 'new'
),
cuts as (
  select
    *,
    list_sort(
      list_distinct(
        [start_token, end_token]
        || case
          when source = 'recomputed' then [unit_edge, offer_edge, kept_edge] || told_edges
          when source = 'restored' then [local_edge, whole_edge]
          when source = 'new' then [left_edge] || told_edges
          when source = 'computed' then told_edges
          else []
        end
      )
    ) as points
  from edges
),
-- One row a cut point, the last of a segment with nothing behind it.
points as (
  select * exclude (points, start_token, end_token), start_token as segment_start, end_token as segment_end, unnest(points) as start_token
  from cuts
),
pieces as (
  select
    *,
    lead(start_token) over (partition by trace_id, turn_span_id, segment_start order by start_token) as end_token
  from points
  where start_token between segment_start and segment_end
)
select
  trace_id,
  turn_span_id,
  resource_id,
  turn_id,
  start_token,
  end_token,
  source,
  origin,
  key,
  provider,
  provided_ns,
  used_ns,
  fate_span_id,
  coalesce(end_token <= unit_edge, true) as in_unit,
  coalesce(end_token <= offer_edge, false) as in_offer,
  coalesce(end_token <= local_edge, false) as in_local,
  coalesce(end_token <= whole_edge, true) as in_whole,
  coalesce(end_token <= left_edge, false) as in_left,
  coalesce(end_token <= kept_edge, false) as in_kept
from pieces
where end_token is not null;
