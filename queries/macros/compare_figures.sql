-- The figures of a comparison, in their order, with units and meanings. Those that end in * come once for each verdict or main cause.
-- Hit means found on the device, leases included; cached means found there or restored from another tier. Shares are sums divided
-- by sums, and stand on complete turns. Latency is from arrival to finish.
--
-- Example: from compare_figures()
--
-- columns
--   position INTEGER -- its place in the list
--   figure VARCHAR -- its name
--   unit VARCHAR -- turns, tokens, ratio or s
--   kind VARCHAR -- total: a sum over all turns, which grows with them; share, mean or quantile: what sides of any size compare by
--   meaning VARCHAR -- the figure in words
create or replace macro compare_figures() as table
select position, figure, unit, kind, meaning
from (
  values
    (1, 'turns', 'turns', 'total', 'complete turns'),
    (2, 'incomplete_turns', 'turns', 'total', 'turns left out of every other figure'),
    (3, 'prompt_tokens', 'tokens', 'total', 'prompt tokens'),
    (4, 'continuation_turns', 'turns', 'total', 'continuation turns: the same conversation, grown by less than 10,000 tokens'),
    (5, 'below_half_hit_turns', 'turns', 'total', 'continuation turns with less than half of the prompt hit'),
    (6, 'below_half_hit_ratio', 'ratio', 'share', 'continuation turns with less than half of the prompt hit, of continuation turns'),
    (7, 'below_half_hit_median_seconds', 's', 'quantile', 'median latency of continuation turns with less than half of the prompt hit'),
    (8, 'half_hit_turns', 'turns', 'total', 'continuation turns with at least half of the prompt hit'),
    (9, 'half_hit_median_seconds', 's', 'quantile', 'median latency of continuation turns with at least half of the prompt hit'),
    (10, 'below_half_cached_turns', 'turns', 'total', 'continuation turns with less than half of the prompt hit or restored'),
    (11, 'below_half_cached_ratio', 'ratio', 'share', 'continuation turns with less than half of the prompt hit or restored, of continuation turns'),
    (12, 'below_half_cached_median_seconds', 's', 'quantile', 'median latency of continuation turns with less than half of the prompt hit or restored'),
    (13, 'half_cached_turns', 'turns', 'total', 'continuation turns with at least half of the prompt hit or restored'),
    (14, 'half_cached_median_seconds', 's', 'quantile', 'median latency of continuation turns with at least half of the prompt hit or restored'),
    (15, 'reuse_ratio', 'ratio', 'share', 'hit or restored, of the tokens that had been seen before'),
    (16, 'hit_ratio', 'ratio', 'share', 'hit, of prompt tokens'),
    (17, 'restored_ratio', 'ratio', 'share', 'restored, of prompt tokens'),
    (18, 'recomputed_ratio', 'ratio', 'share', 'recomputed, of prompt tokens'),
    (19, 'new_ratio', 'ratio', 'share', 'new, of prompt tokens'),
    (20, 'untold_ratio', 'ratio', 'share', 'computed where nobody knows what had been seen, of prompt tokens'),
    (21, 'ttft_median_seconds', 's', 'quantile', 'time to first token, median'),
    (22, 'ttft_p90_seconds', 's', 'quantile', 'time to first token that 90 % of turns keep to'),
    (23, 'ttft_median_seconds.*', 's', 'quantile', 'time to first token, median, of turns with verdict *'),
    (24, 'ttft_p90_seconds.*', 's', 'quantile', 'time to first token that 90 % of the turns with verdict * keep to'),
    (25, 'lost_seconds', 's', 'total', 'seconds to first token lost that a cache could have saved, of the turns for which that is known (view turn_costs)'),
    (26, 'lost_seconds_per_turn', 's', 'mean', 'seconds to first token lost that a cache could have saved, by the turns for which that is known; 0 for a hit and where no cache could have helped'),
    (27, 'not_cache_seconds', 's', 'total', 'seconds to first token lost to what is not the cache: waiting, load and slow restores'),
    (28, 'not_cache_seconds_per_turn', 's', 'mean', 'seconds to first token lost to what is not the cache, by complete turns'),
    (29, 'cause_ratio.*', 'ratio', 'share', 'turns with main cause *, of all turns')
) as listed (position, figure, unit, kind, meaning);
