-- Version 2: a turn's keys bring the positions at which they end.
alter table spans add column keys_end_tokens BIGINT[];
