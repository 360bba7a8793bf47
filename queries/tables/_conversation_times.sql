-- One row a conversation of an engine start: between which times its turns arrived. It bounds the search for a turn's predecessor.
create table _conversation_times (
  resource_id VARCHAR,     -- the engine start
  conversation_id VARCHAR, -- the conversation
  first_ns BIGINT,         -- arrival of its first turn [ns]
  last_ns BIGINT           -- arrival of its last turn [ns]
);
