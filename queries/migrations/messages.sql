-- Version 4: in what way messages differ; and tables of their own for what events left on devices. Facts have a column more, and are
-- told anew.
alter table spans add column messages_untimed VARCHAR[];
alter table spans add column messages_unthought VARCHAR[];
alter table spans add column namespace VARCHAR;
drop table if exists _turn_facts;
