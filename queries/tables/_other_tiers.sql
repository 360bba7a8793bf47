-- One row an engine start that publishes to or evicts from another tier than the device.
create table _other_tiers (
  resource_id VARCHAR  -- the engine start
);
