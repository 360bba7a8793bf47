-- The spans of these turns, and those of other programs in their traces that count tokens, in the place of all: view _turn_usage reads
-- them. A caller's span may begin before its turn, by an hour at most.
create temporary table spans as
with others as (
  select rowid as place
  from spans
  where (start_ns >= getvariable('facts_low_usage') or start_ns is null)
    and name not in ('turn', 'turn.correction', 'scheduler.admit', 'prefill')
    and not starts_with(name, 'snapshot.')
    and trace_id in (select trace_id from _dirty)
    and (
      cache_read_tokens is not null
      or attributes."gen_ai.usage.cached_tokens" is not null
      or attributes."gen_ai.usage.cache_read_input_tokens" is not null
    )
)
select trace_id, span_id, parent_span_id, name, turn_id, request_id, input_tokens, cache_read_tokens, output_tokens, attributes
from spans
where rowid in (select place from others union all select place from _own where name = 'turn');
