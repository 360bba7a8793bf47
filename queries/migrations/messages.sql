-- Version 4: in what way messages differ; and tables of their own for what events left on devices.
alter table spans add column messages_untimed VARCHAR[];
alter table spans add column messages_unthought VARCHAR[];
alter table spans add column namespace VARCHAR;
alter table if exists _turn_facts add column if not exists avoidable_new_tokens BIGINT;
