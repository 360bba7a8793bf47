-- Version 3: an admission says where else the prefix was held.
alter table spans add column admit_elsewhere VARCHAR;
alter table spans add column admit_elsewhere_tokens BIGINT;
alter table spans add column admit_elsewhere_holder VARCHAR;
