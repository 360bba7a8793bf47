-- One row a turn: what view _told_turns says of the spans, kept up to date by queries/folding.py as spans come.
create table _turn_facts (
  trace_id VARCHAR,              -- trace of the turn
  span_id VARCHAR,               -- span of the turn; with trace_id the identity of the turn
  resource_id VARCHAR,           -- the engine start that served it
  turn_id VARCHAR,               -- readable id, unique within one engine start
  request_id VARCHAR,            -- id of the request
  conversation_id VARCHAR,       -- conversation that the turn grows
  session_id VARCHAR,            -- engine session that the turn resumes
  run VARCHAR,                   -- label of the experiment
  tenant VARCHAR,                -- on whose behalf
  model VARCHAR,                 -- model that was asked for
  start_ns BIGINT,               -- arrival [ns]
  end_ns BIGINT,                 -- finish [ns]; null while the turn's span has not arrived
  prompt_tokens BIGINT,          -- P [tokens]
  output_tokens BIGINT,          -- generated [tokens]
  message_count BIGINT,          -- messages in the prompt
  status VARCHAR,                -- how it ended; null where its span has not arrived
  complete BOOLEAN,              -- every prompt position was observed without contradiction
  incomplete_reasons VARCHAR[],  -- why not complete; empty for a complete turn
  cache_disabled VARCHAR,        -- by_request or by_configuration
  hit_tokens BIGINT,             -- coverage [tokens]
  restored_tokens BIGINT,        -- coverage [tokens]
  computed_tokens BIGINT,        -- coverage, recomputed + new [tokens]
  recomputed_tokens BIGINT,      -- coverage; null where S is unknown [tokens]
  new_tokens BIGINT,             -- coverage; null where S is unknown [tokens]
  avoidable_new_tokens BIGINT,   -- of the new tokens those that a cache could have had: held elsewhere, or changed in the prompt [tokens]
  unobserved_tokens BIGINT,      -- coverage [tokens]
  work_hit_tokens BIGINT,        -- work over all attempts [tokens]
  work_restored_tokens BIGINT,   -- work over all attempts [tokens]
  work_computed_tokens BIGINT,   -- work over all attempts [tokens]
  wasted_restored_tokens BIGINT, -- restored work that is not in coverage [tokens]
  wasted_computed_tokens BIGINT, -- computed work that is not in coverage [tokens]
  self_recovered_tokens BIGINT,  -- found still on the device by a later attempt [tokens]
  discarded_tokens BIGINT,       -- offered, loaded or computed for nothing [tokens]
  seen_tokens BIGINT,            -- S [tokens]
  seen_basis VARCHAR,            -- keys, conversation or none
  seen_since_ns BIGINT,          -- nothing older is known for certain [ns]
  attempts BIGINT,               -- accepted admissions
  retries BIGINT,                -- failed admissions
  restores BIGINT, -- restores, skipped ones too
  frontend_ns BIGINT,            -- arrival at the server to the scheduler [ns]
  queue_ns BIGINT,               -- scheduler to first admission [ns]
  restore_ns BIGINT,             -- restores under way before the first token [ns]
  compute_ns BIGINT,             -- the rest of the time to the first token [ns]
  ttft_ns BIGINT,                -- arrival to first token [ns]
  total_ns BIGINT,               -- arrival to finish [ns]
  recorded_verdict VARCHAR,      -- the recorder's verdict, to check against
  engine VARCHAR,                -- which server
  replica VARCHAR,               -- which copy of it
  verdict VARCHAR,               -- hit, restored, recomputed, cold or incomplete; whether its times contradict it, view _turn_verdicts tells
  main_cause VARCHAR,            -- the cause of most tokens of the verdict's source; not_cache.* where a hit was slow for another reason
  counted_cached_tokens BIGINT,  -- cached tokens by a usage that the events contradict; null where there is none [tokens]
  trace_digest UBIGINT,          -- md5 of trace_id in short, by which it is found quickly
  turn_digest UBIGINT,           -- the same of turn_id
  request_digest UBIGINT,        -- the same of request_id
  span_digest UBIGINT,           -- the same of span_id
  conversation_digest UBIGINT    -- the same of conversation_id
);
