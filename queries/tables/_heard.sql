-- One row an engine start, a run that it served and an hour in which it ended a turn of that run: where another replica may have been
-- asked instead.
create table _heard (
  resource_id VARCHAR, -- the engine start
  run VARCHAR,         -- label of the run; empty where the turns have none
  hour BIGINT          -- hours since 1970
);
