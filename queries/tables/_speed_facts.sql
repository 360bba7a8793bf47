-- One row an engine start: what view _told_speeds says of it, kept up to date by queries/folding.py.
create table _speed_facts (
  resource_id VARCHAR,              -- the engine start
  computing_turns BIGINT,           -- complete turns that computed 1,024 tokens and more
  computed_seconds_each DOUBLE,     -- of these, the median to within half a percent [s/token]
  restoring_turns BIGINT,           -- complete turns that restored 1,024 tokens and more
  restored_seconds_each DOUBLE,     -- of these, the median to within half a percent [s/token]
  prefill_turns BIGINT,             -- complete turns that computed anything
  prefill_seconds_per_token DOUBLE, -- fitted slope of their time to the first token without frontend, queue and restores; null where there is none above 0 [s/token]
  prefill_error_ratio DOUBLE,       -- standard error of the slope over the slope
  restore_turns BIGINT,             -- complete turns that restored anything
  restore_seconds_per_token DOUBLE, -- fitted slope of their time under restores; null where there is none above 0 [s/token]
  restore_error_ratio DOUBLE        -- standard error of the slope over the slope
);
