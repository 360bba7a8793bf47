-- One row: how far the spans are told as facts.
create table _folded (
  upto BIGINT,         -- the last span_number that is
  rules VARCHAR,       -- digest of the SQL that tells
  failed_spans BIGINT, -- spans that could not be told
  last_error VARCHAR   -- why, of the last of them
);
