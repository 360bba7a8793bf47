-- One row a snapshot of a whole prefix that was published up to the time at which its engine start is settled: where it ends.
create table _snapshot_ends (
  resource_id VARCHAR,  -- the engine start
  key VARCHAR,          -- the prefix key
  end_tokens BIGINT     -- position past its last token
);
