-- Version 3: spans are numbered as they come, and the facts of turns are kept up to date in tables of their own.
create sequence if not exists span_numbers;
alter table spans add column previous_turn_id VARCHAR;
alter table spans add column span_number BIGINT default nextval('span_numbers');
