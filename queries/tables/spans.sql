-- One row a span, whoever sent it. Columns without a value are null.
--
-- Generated from tracing/conventions.py by docs/generate.py; do not edit.
create sequence if not exists span_numbers;
create table spans (
  trace_id VARCHAR,                                                      -- 32 hexadecimal digits; one trace a turn
  span_id VARCHAR,                                                       -- 16 hexadecimal digits; (trace_id, span_id) is stored once
  parent_span_id VARCHAR,                                                -- null for a root
  name VARCHAR,                                                          -- what happened: turn, scheduler.admit, snapshot.evict, ... or any other span's name
  kind VARCHAR,                                                          -- internal, server, client, producer, consumer or unspecified
  start_ns BIGINT,                                                       -- wall clock; null where the span had none [ns]
  end_ns BIGINT,                                                         -- wall clock; null where the span had none [ns]
  status_code VARCHAR,                                                   -- unset, ok or error
  status_message VARCHAR,                                                -- the error in words
  trace_state VARCHAR,                                                   -- W3C tracestate
  flags BIGINT,                                                          -- OTLP span flags
  scope_name VARCHAR,                                                    -- the instrumentation that made the span
  scope_version VARCHAR,                                                 -- its version
  resource_id VARCHAR,                                                   -- the engine start that it comes from, in table resources
  received_ns BIGINT,                                                    -- when the collector received it [ns]
  faults VARCHAR[],                                                      -- what was odd about the span as it arrived; null where nothing was
  turn_id VARCHAR,                                                       -- the turn that this span is about; unique within one recorder
  request_id VARCHAR,                                                    -- the engine's or the client's id of the request
  conversation_id VARCHAR,                                               -- the conversation whose prompt this turn grows
  previous_turn_id VARCHAR,                                              -- the turn of the conversation that had ended last when this one arrived
  previous_end_tokens BIGINT,                                            -- end of the longest snapshot that that turn had published when this one arrived [tokens]
  session_id VARCHAR,                                                    -- the engine session that this turn resumes
  run VARCHAR,                                                           -- the labelled experiment or configuration, for comparisons
  tenant VARCHAR,                                                        -- on whose behalf, where several share an engine
  model VARCHAR,                                                         -- the model that was asked for
  prompt_tokens BIGINT,                                                  -- P: the length of the prompt [tokens]
  input_tokens BIGINT,                                                   -- the same as prompt_tokens, under the standard name [tokens]
  cache_read_tokens BIGINT,                                              -- hit_tokens + restored_tokens, under the standard name [tokens]
  output_tokens BIGINT,                                                  -- tokens generated [tokens]
  message_count BIGINT,                                                  -- messages in the prompt [messages]
  messages_digest VARCHAR[],                                             -- digest of each message of the prompt, the first ones of a long one
  messages_end_tokens BIGINT[],                                          -- where each of them ends in the prompt, or 0 [tokens]
  messages_role VARCHAR[],                                               -- role of each of them (tools: the tools' schemas), or ''
  messages_untimed VARCHAR[],                                            -- digest of each without its dates and times; '' where it has none
  messages_unthought VARCHAR[],                                          -- digest of each without its thinking; '' where it has none
  prompt_changed VARCHAR,                                                -- how it differs from the conversation's prompt before, where its sender knows
  namespace VARCHAR,                                                     -- digest of what keeps keys of equal text apart: a salt, an adapter
  status VARCHAR,                                                        -- how the turn ended: stop, length, abort, cancelled, error, timeout
  complete BOOLEAN,                                                      -- whether every prompt position was observed without contradiction
  incomplete_reasons VARCHAR[],                                          -- why the turn is not complete
  verdict VARCHAR,                                                       -- the recorder's own verdict, to check the SQL's against
  cache_disabled VARCHAR,                                                -- by_request or by_configuration: the cache was not to be read
  hit_tokens BIGINT,                                                     -- coverage: KV was on the device, left by another turn, a lease or the session [tokens]
  restored_tokens BIGINT,                                                -- coverage: KV was loaded from another tier, verified and consumed [tokens]
  computed_tokens BIGINT,                                                -- coverage: went through the model (recomputed + new) [tokens]
  recomputed_tokens BIGINT,                                              -- coverage: went through the model below seen_tokens [tokens]
  new_tokens BIGINT,                                                     -- coverage: went through the model from seen_tokens on [tokens]
  unobserved_tokens BIGINT,                                              -- coverage: the events do not say [tokens]
  work_hit_tokens BIGINT,                                                -- work over all attempts: local tokens consumed [tokens]
  work_restored_tokens BIGINT,                                           -- work over all attempts: restored tokens consumed [tokens]
  work_computed_tokens BIGINT,                                           -- work over all attempts: prompt tokens computed and accepted [tokens]
  wasted_restored_tokens BIGINT,                                         -- restored work that is not in coverage [tokens]
  wasted_computed_tokens BIGINT,                                         -- computed work that is not in coverage [tokens]
  self_recovered_tokens BIGINT,                                          -- positions that an earlier attempt held and a later one found still on the device [tokens]
  discarded_tokens BIGINT,                                               -- offered or loaded but never consumed, and computed by steps whose output was discarded [tokens]
  seen_tokens BIGINT,                                                    -- S: the longest prefix of this prompt seen before, in any turn [tokens]
  seen_basis VARCHAR,                                                    -- how S was found: keys, engine (keys of what it still holds), conversation (an estimate) or none
  seen_since_ns BIGINT,                                                  -- what was last used before this time may be forgotten or was never seen [ns]
  attempts BIGINT,                                                       -- accepted admissions of this turn [attempts]
  retries BIGINT,                                                        -- admissions whose allocation failed [retries]
  restores BIGINT,                                                       -- restores of this turn, skipped ones too [restores]
  segments_start_tokens BIGINT[],                                        -- first position of each segment of the prompt [tokens]
  segments_end_tokens BIGINT[],                                          -- position past the last of each segment [tokens]
  segments_source VARCHAR[],                                             -- hit, restored, recomputed, new, computed (S unknown) or unobserved
  segments_origin VARCHAR[],                                             -- of hits: turn, lease or session; lost: a preemption took it before
  segments_key VARCHAR[],                                                -- the key of the first reuse point past the segment's start, or ''
  segments_provider VARCHAR[],                                           -- the turn that had published or computed this prefix, or ''
  segments_provided_ns BIGINT[],                                         -- when the provider did, or 0 [ns]
  segments_used_ns BIGINT[],                                             -- when the prefix was last used before this turn, or 0 [ns]
  segments_fate VARCHAR[],                                               -- span that says why the key was not on the device, as far as was known, or ''
  frontend_ns BIGINT,                                                    -- arrival at the server to arrival at the scheduler [ns]
  queue_ns BIGINT,                                                       -- arrival at the scheduler to the first accepted admission; absent where the source does not say [ns]
  restore_ns BIGINT,                                                     -- time in which a restore was under way, until the first token [ns]
  compute_ns BIGINT,                                                     -- the rest of the time to the first token, with the queue where that is not known [ns]
  ttft_ns BIGINT,                                                        -- arrival to first token [ns]
  total_ns BIGINT,                                                       -- arrival to finish [ns]
  key VARCHAR,                                                           -- snapshot or deepest prefix key that this span is about
  keys VARCHAR[],                                                        -- keys in order of depth: of a turn those not seen before, else those concerned
  keys_end_tokens BIGINT[],                                              -- where each of a turn's keys ends, unless tokens_each says [tokens]
  parent_key VARCHAR,                                                    -- the key just above the first of keys
  keys_omitted BIGINT,                                                   -- keys left out of this span because the list was too long [keys]
  tokens_each BIGINT,                                                    -- tokens per key, where keys are blocks [tokens]
  key_tokens BIGINT,                                                     -- position at which the (deepest) key ends, where it is known [tokens]
  attempt BIGINT,                                                        -- which attempt of the turn, from 1
  admit_hit_tokens BIGINT,                                               -- prefix that the admission found on the device [tokens]
  admit_offered_tokens BIGINT,                                           -- prefix beyond it that another tier offered [tokens]
  admit_lease_tokens BIGINT,                                             -- prefix beyond the hit that a lease holds [tokens]
  admit_local_tokens BIGINT,                                             -- prefix usable on the device, whether it was used or not [tokens]
  admit_missing_key VARCHAR,                                             -- first key that was not found on the device
  admit_matched_tokens BIGINT,                                           -- prefix whose tokens match what the engine has [tokens]
  admit_not_restorable VARCHAR,                                          -- why its state does not exist as far as it matches
  admit_elsewhere VARCHAR,                                               -- the prefix was held elsewhere: other_replica, other_slot or router
  admit_elsewhere_tokens BIGINT,                                         -- prefix that was held there [tokens]
  admit_elsewhere_holder VARCHAR,                                        -- who held it: a replica or a slot
  retry_reasons VARCHAR[],                                               -- why admissions failed before this one
  free_slots BIGINT,                                                     -- free snapshot slots at that moment [slots]
  total_slots BIGINT,                                                    -- snapshot slots that the engine has [slots]
  free_tokens BIGINT,                                                    -- free KV tokens at that moment [tokens]
  total_tokens BIGINT,                                                   -- KV tokens that the engine has [tokens]
  running BIGINT,                                                        -- requests running at that moment [requests]
  waiting BIGINT,                                                        -- requests waiting at that moment [requests]
  first_token BIGINT,                                                    -- first position computed [tokens]
  last_token BIGINT,                                                     -- position past the last computed [tokens]
  preempted_by VARCHAR,                                                  -- the turn that a preempted attempt made room for
  steps BIGINT,                                                          -- steps in which prompt positions were computed [steps]
  tokens BIGINT,                                                         -- tokens computed, published, restored or lost [tokens]
  tier VARCHAR,                                                          -- device, host, disk, remote, peer or unspecified
  outcome VARCHAR,                                                       -- how a publish, a restore, a lease or a prefill (done, preempted, stopped) ended
  reason VARCHAR,                                                        -- why it ended so; of an eviction: slots, memory, tier_capacity, reset, ...
  valid_prefix_tokens BIGINT,                                            -- absolute prefix that was usable when the restore ended [tokens]
  ranks BIGINT,                                                          -- workers that must hold the restored span [ranks]
  bytes BIGINT,                                                          -- bytes moved [bytes]
  slots BIGINT,                                                          -- slots that a published snapshot takes [slots]
  trigger VARCHAR,                                                       -- what caused a publish: speaker_change, turn_end, page, interval, restore
  policy VARCHAR,                                                        -- the eviction policy that chose the victim
  sequence BIGINT,                                                       -- order among the recorder's admissions, publishes and evictions, for equal times
  owner_turn_id VARCHAR,                                                 -- the turn that had published what was evicted
  age_ns BIGINT,                                                         -- time since the evicted snapshot was published [ns]
  idle_ns BIGINT,                                                        -- time since the evicted snapshot was last used [ns]
  links STRUCT(trace_id VARCHAR, span_id VARCHAR, attributes VARCHAR)[], -- spans that this one points to
  events STRUCT(time_ns BIGINT, name VARCHAR, attributes VARCHAR)[],     -- things that happened within the span
  dropped_attributes BIGINT,                                             -- attributes, events and links that the sender says it dropped
  span_number BIGINT default nextval('span_numbers'),                    -- order in which the store got it: facts are brought up to date by it
  attributes VARIANT                                                     -- every attribute that has no column of its own
);
