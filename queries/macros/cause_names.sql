-- All causes that there can be, and those that the store has besides: an engine's own words for an eviction or a skipped publish are
-- taken as they are. What each means, and what helps against it, is in docs/causes.md.
--
-- Example: from cause_names() where cause like 'restore_failed.%'
--
-- columns
--   cause VARCHAR -- class.detail
--   class VARCHAR -- its class
create or replace macro cause_names() as table
with listed (class, details) as (
  values
    ('provided', 'turn lease session'),
    ('first_seen', 'new_conversation new_tokens'),
    ('prefix_changed', 'header timestamp tools history_edited thinking_stripped output_rerendered compaction truncation namespace'),
    ('granularity', 'below_unit partial_unit last_token'),
    ('state_not_restorable', 'sliding_window recurrent_checkpoint checkpoint_ring after_abort unspecified'),
    ('evicted', 'slots memory tier_capacity lease_expired slot_reassigned reset by_request unspecified'),
    ('not_published', 'pending skipped_min_span skipped_busy skipped_backlog skipped_unspecified failed cancelled output_not_cached'),
    ('restore_skipped', 'below_threshold backlog deadline quorum oversize higher_tier_hit incompatible key_mismatch unspecified'),
    ('restore_failed', 'absent corrupt timeout partial cancelled stale unspecified'),
    ('restore_preferred', 'longer_span'),
    ('placement', 'other_replica other_slot router'),
    ('disabled', 'by_request by_configuration'),
    ('preempted', 'self_recompute'),
    ('not_cache', 'queue frontend slow_restore load'),
    ('engine_fault', 'counter_stuck counter_differs foreign_restore'),
    ('unobserved', 'events_missing')
),
named as (
  select class || '.' || unnest(string_split(details, ' ')) as cause from listed
  union
  select cause from _cause_facts
  union
  select main_cause from _turn_facts where main_cause is not null
)
select cause, split_part(cause, '.', 1) as class
from named
order by cause;
