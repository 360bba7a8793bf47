-- Spans that views turns and causes do not contain yet: those that wait (facts are told a moment after spans come; of a store that
-- nobody has open since a crash, when a collector opens it next), and those that could not be told.
--
-- Example: from untold_spans()
--
-- columns
--   waiting_spans BIGINT -- stored and not told yet
--   failed_spans BIGINT -- that were left out because an error came
--   last_error VARCHAR -- that error
create or replace macro untold_spans() as table
select
  (select count(*) from spans where span_number > coalesce((select max(upto) from _folded), 0)) as waiting_spans,
  coalesce((select max(failed_spans) from _folded), 0) as failed_spans,
  (select max(last_error) from _folded) as last_error;
