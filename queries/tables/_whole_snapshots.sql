-- One row an engine start whose snapshots each bring back a whole prefix, as far as they are published to the device.
create table _whole_snapshots (
  resource_id VARCHAR  -- the engine start
);
