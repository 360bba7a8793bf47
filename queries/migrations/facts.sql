-- Version 3: spans are numbered as they come, and the facts of turns are kept up to date in tables of their own.
create sequence if not exists span_numbers;
alter table spans add column admit_matched_tokens BIGINT;
alter table spans add column admit_not_restorable VARCHAR;
alter table spans add column admit_elsewhere VARCHAR;
alter table spans add column admit_elsewhere_tokens BIGINT;
alter table spans add column admit_elsewhere_holder VARCHAR;
alter table spans add column messages_digest VARCHAR[];
alter table spans add column messages_end_tokens BIGINT[];
alter table spans add column messages_role VARCHAR[];
alter table spans add column segments_fate VARCHAR[];
alter table spans add column previous_end_tokens BIGINT;
alter table spans add column restores BIGINT;
alter table spans add column previous_turn_id VARCHAR;
alter table spans add column span_number BIGINT default nextval('span_numbers');
