-- Version 3: an admission says where else the prefix was held, and how far it matches a state that does not exist; a turn brings
-- digests of its messages.
alter table spans add column admit_matched_tokens BIGINT;
alter table spans add column admit_not_restorable VARCHAR;
alter table spans add column admit_elsewhere VARCHAR;
alter table spans add column admit_elsewhere_tokens BIGINT;
alter table spans add column admit_elsewhere_holder VARCHAR;
alter table spans add column messages_digest VARCHAR[];
alter table spans add column messages_end_tokens BIGINT[];
alter table spans add column messages_role VARCHAR[];
