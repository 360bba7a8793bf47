-- One row a key that is on the device at the time up to which its engine start is settled.
create table _residents (
  resource_id VARCHAR,  -- the engine start
  key VARCHAR,          -- the prefix key
  slots_each BIGINT,    -- slots that it takes
  worth BIGINT,         -- tokens that its publish added
  whole BOOLEAN         -- a snapshot that brings back a whole prefix
);
