-- One row an engine start and kind of work: sums over its complete turns, of which rates are fitted.
create table _speed_sums (
  resource_id VARCHAR,   -- the engine start
  kind VARCHAR,          -- computed or restored
  turns BIGINT,          -- complete turns with any
  tokens HUGEINT,        -- sum of tokens [tokens]
  us HUGEINT,            -- sum of time [us]
  tokens_tokens HUGEINT, -- sum of tokens squared
  tokens_us HUGEINT,     -- sum of tokens times time
  us_us HUGEINT          -- sum of time squared
);
