-- One row a span of a prompt's tokens: what view _told_causes says of the spans, kept up to date by queries/folding.py.
create table _cause_facts (
  turn_id VARCHAR,          -- the turn
  start_token BIGINT,       -- first position [tokens]
  end_token BIGINT,         -- position past the last [tokens]
  source VARCHAR,           -- hit, restored, recomputed, new, computed (S unknown) or unobserved
  cause VARCHAR,            -- class.detail
  confidence VARCHAR,       -- observed (an event says it), derived (it follows) or assumed (the most likely of what remains)
  evidence VARCHAR[],       -- spans that show it (name, id) and other causes that hold as well
  missing_evidence VARCHAR, -- what would have to be known to be sure; null where nothing
  provided_by_turn VARCHAR, -- the turn that had published or computed this prefix
  evicted_by_turn VARCHAR,  -- the turn that needed the room, of an eviction or a preemption
  provided_ns BIGINT,       -- when the provider had it [ns]
  used_ns BIGINT,           -- when the prefix was last used before this turn [ns]
  key VARCHAR,              -- the first missing key; of a hit the first key of the span
  origin VARCHAR,           -- turn, lease or session of a hit; lost where a preemption took it; else null
  evicted_ns BIGINT,        -- when the eviction or the preemption took place [ns]
  evict_span_id VARCHAR,    -- its span
  restore_span_id VARCHAR,  -- the restore that failed or was skipped
  held_by VARCHAR, -- where it was held all the same: the tier of a restore that was skipped, another replica or slot
  changed_message VARCHAR, -- of a changed prompt: the first message that is not the same, for example message 1 (system)
  admitted_ns BIGINT,       -- the admission that decided [ns]
  trace_id VARCHAR,         -- trace of the turn
  turn_span_id VARCHAR,     -- span of the turn
  resource_id VARCHAR,      -- the engine start
  eviction STRUCT(at_ns BIGINT, by_turn VARCHAR, reason VARCHAR, tokens BIGINT, keys BIGINT, idle_seconds DOUBLE, free_slots BIGINT, total_slots BIGINT, free_tokens BIGINT, total_tokens BIGINT, "policy" VARCHAR, span_id VARCHAR), -- the eviction that explains it, with what was free then; null where none does
  turn_start_ns BIGINT,     -- arrival of the turn [ns]
  trace_digest UBIGINT      -- md5 of trace_id in short, by which it is found quickly
);
