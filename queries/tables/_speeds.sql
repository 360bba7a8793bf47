-- One row an engine start and a hundredth of a power of e of seconds per token: how many complete turns took as long, for those
-- that computed or restored 1,024 tokens and more. The median is read from it.
create table _speeds (
  resource_id VARCHAR, -- the engine start
  kind VARCHAR,        -- computed or restored
  step BIGINT,         -- round(100 ln(ns per token))
  turns BIGINT         -- turns
);
