-- One row a publish or an eviction that changed what is on the device, as far as that is settled (table _settled), in order.
create table _device_changes (
  resource_id VARCHAR,  -- the engine start
  number BIGINT,        -- place in the order of its changes, from 1
  at_ns BIGINT,         -- when [ns]
  sequence BIGINT,      -- order among events of one time
  span_id VARCHAR,      -- the span that says so
  event VARCHAR,        -- publish, evict or reset
  slots BIGINT,         -- slots taken afterwards
  tokens BIGINT         -- tokens that can be reused afterwards
);
