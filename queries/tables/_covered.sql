-- One row an engine start: from when to when its spans that are told reach, and the largest capacity that they name.
create table _covered (
  resource_id VARCHAR,  -- the engine start
  first_ns BIGINT,      -- the first beginning [ns]
  last_ns BIGINT,       -- the last end [ns]
  total_slots BIGINT,   -- snapshot slots
  pool_tokens BIGINT    -- KV tokens
);
