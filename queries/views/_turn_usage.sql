-- One row a turn whose usage somebody else recorded: the engine's own span or the client's, in the turn's trace. Which span that is:
-- the one that called the turn, one that names its request (gen_ai.request.id), or the turn's own span where it carries older names.
-- The standard names on the turn's own span are the recorder's, and no second opinion.
--
-- columns
--   trace_id VARCHAR -- trace of the turn
--   span_id VARCHAR -- span of the turn
--   usage_span_id VARCHAR -- the span with the usage
--   input_tokens BIGINT -- prompt tokens, cached ones included [tokens]
--   cached_tokens BIGINT -- of those, read from the cache [tokens]
--   output_tokens BIGINT -- tokens generated [tokens]
create or replace view _turn_usage as
with usage as (
  select
    trace_id,
    span_id,
    name = 'turn' and turn_id is not null as is_turn,
    try_cast(attributes."gen_ai.request.id" as varchar) as request_id,
    coalesce(
      case when name <> 'turn' or turn_id is null then input_tokens end,
      try_cast(attributes."gen_ai.usage.prompt_tokens" as bigint)
    ) as input_tokens,
    coalesce(
      case when name <> 'turn' or turn_id is null then cache_read_tokens end,
      try_cast(attributes."gen_ai.usage.cached_tokens" as bigint),
      try_cast(attributes."gen_ai.usage.cache_read_input_tokens" as bigint)
    ) as cached_tokens,
    coalesce(
      case when name <> 'turn' or turn_id is null then output_tokens end,
      try_cast(attributes."gen_ai.usage.completion_tokens" as bigint)
    ) as output_tokens
  from spans
  where name not in ('scheduler.admit', 'prefill') and not starts_with(name, 'snapshot.')
)
select
  t.trace_id,
  t.span_id,
  u.span_id as usage_span_id,
  u.input_tokens,
  u.cached_tokens,
  u.output_tokens
from spans as t
join usage as u
  on u.trace_id = t.trace_id
    and case when u.is_turn then u.span_id = t.span_id else u.span_id = t.parent_span_id or u.request_id = t.request_id end
where t.name = 'turn'
  and t.turn_id is not null
  and (u.input_tokens is not null or u.cached_tokens is not null)
-- The engine's own span before the client's.
qualify row_number() over (
  partition by t.trace_id, t.span_id order by u.request_id is null, u.is_turn desc, u.span_id
) = 1;
