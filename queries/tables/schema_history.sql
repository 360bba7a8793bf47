-- One row a version that this store has had. The highest version is the store's; a newer program migrates it, an older one
-- refuses it by name.
create table schema_history (
  version BIGINT,                     -- version of the store's tables
  applied_ns BIGINT,                  -- when this store got it [ns]
  program VARCHAR,                    -- version of Turnlens that did it
  description VARCHAR                 -- what changed
);
