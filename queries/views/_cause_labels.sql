-- One row a word that an engine or a connector has for a reason, and the detail of the cause that it is here. Spans carry the
-- engine's own word; only this table maps it. A word that is not here becomes ``unspecified``.
--
-- columns
--   class VARCHAR -- class of the cause
--   label VARCHAR -- the engine's word, in lower case
--   detail VARCHAR -- detail of the cause
create or replace view _cause_labels as
from (
  values
    ('state_not_restorable', 'sliding_window', 'sliding_window'),
    ('state_not_restorable', 'swa', 'sliding_window'),
    ('state_not_restorable', 'recurrent_checkpoint', 'recurrent_checkpoint'),
    ('state_not_restorable', 'recurrent', 'recurrent_checkpoint'),
    ('state_not_restorable', 'hybrid', 'recurrent_checkpoint'),
    ('state_not_restorable', 'checkpoint_ring', 'checkpoint_ring'),
    ('state_not_restorable', 'after_abort', 'after_abort'),
    ('restore_skipped', 'below_threshold', 'below_threshold'),  -- SGLang's word as well
    ('restore_skipped', 'min_retrieve', 'below_threshold'),  -- LMCache: need to load < min_retrieve
    ('restore_skipped', 'backlog', 'backlog'),  -- SparkCache: restore_skip_backlog
    ('restore_skipped', 'deadline', 'deadline'),  -- SGLang: a prefetch that was not there in time
    ('restore_skipped', 'quorum', 'quorum'),
    ('restore_skipped', 'quorum_incomplete', 'quorum'),  -- SparkCache: not every rank has it
    ('restore_skipped', 'oversize', 'oversize'),  -- SparkCache: restore_skip_oversize
    ('restore_skipped', 'host_capacity', 'oversize'),  -- SGLang: more than there is room for on the way
    ('restore_skipped', 'device_capacity', 'oversize'),
    ('restore_skipped', 'higher_tier_hit', 'higher_tier_hit'),
    ('restore_skipped', 'local_prefix', 'higher_tier_hit'),  -- SparkCache: restore_skip_local_prefix
    ('restore_skipped', 'device_covered', 'higher_tier_hit'),  -- SGLang
    ('restore_skipped', 'incompatible', 'incompatible'),  -- SparkCache: restore_miss_incompatible
    ('restore_skipped', 'key_mismatch', 'key_mismatch')  -- LMCache: two processes with other hash seeds
) as labels(class, label, detail);
