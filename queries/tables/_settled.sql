-- One row an engine start whose publishes and evictions on the device are told: up to when what they left is settled in table
-- _device_changes. What happened later is reckoned when it is asked for; what comes late unsettles all of the engine start.
create table _settled (
  resource_id VARCHAR,  -- the engine start
  upto_ns BIGINT,       -- up to this time, included; 0 where nothing is settled [ns]
  upto_number BIGINT,   -- the last span that there was then: one of an earlier time that came after it is late
  changes BIGINT,       -- rows of _device_changes
  slots BIGINT,         -- slots taken then
  tokens BIGINT,        -- tokens that could be reused then
  last_ns BIGINT,       -- the last event that is told [ns]
  told BIGINT,          -- events that are told
  due BIGINT            -- so many must be told before it is worth to settle more
);
