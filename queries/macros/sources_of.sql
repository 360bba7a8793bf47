-- One row a source of one turn's prompt tokens; the rows of a complete turn add up to its prompt. ``computed`` stands alone where
-- nobody knows what had been seen, and so recomputed and new are not told apart.
--
-- Example: from sources_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns
--   source VARCHAR -- hit, restored, recomputed, new, computed or unobserved
--   tokens BIGINT -- tokens from it [tokens]
--   of_tokens BIGINT -- P [tokens]
--   share_ratio DOUBLE -- tokens / P
create or replace macro sources_of(trace, span, at_ns := null) as table
with sums as (
  select
    hit_tokens as hit,
    restored_tokens as restored,
    recomputed_tokens as recomputed,
    new_tokens as new,
    case when recomputed_tokens is null then computed_tokens end as computed,
    nullif(unobserved_tokens, 0) as unobserved,
    prompt_tokens as of_tokens
  from turn_of(trace, span, at_ns := at_ns)
)
select source, tokens, of_tokens, tokens / nullif(of_tokens, 0)::double as share_ratio
from sums
unpivot (tokens for source in (hit, restored, recomputed, new, computed, unobserved));
