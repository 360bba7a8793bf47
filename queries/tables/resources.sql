-- One row a sender: for an engine, one row a start, with what it has.
--
-- Generated from tracing/conventions.py by docs/generate.py; do not edit.
create table resources (
  resource_id VARCHAR,        -- digest of all attributes
  first_received_ns BIGINT,   -- when the collector first saw it [ns]
  service_name VARCHAR,       -- the service, as OpenTelemetry names it
  instance_id VARCHAR,        -- one start of one engine process
  service_version VARCHAR,    -- version of the service
  engine VARCHAR,             -- which server
  engine_version VARCHAR,     -- version of the engine's software
  replica VARCHAR,            -- which copy of the engine
  engine_slots BIGINT,        -- snapshot slots [slots]
  pool_tokens BIGINT,         -- KV tokens that fit on the device [tokens]
  unit_tokens BIGINT,         -- the reuse unit: prefixes match in multiples of it [tokens]
  engine_policy VARCHAR,      -- eviction policy
  recorder_started_ns BIGINT, -- when the recorder started [ns]
  conventions_schema VARCHAR, -- version of these conventions
  source VARCHAR,             -- what was read or simulated; null where an engine's own recorder sent it
  attributes VARIANT          -- every attribute that has no column of its own
);
