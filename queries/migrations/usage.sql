-- Version 5: what others count of turns, how a prompt changed where its sender knows, and where events come from that no engine sent
-- itself. Facts have a column more, and are told anew.
alter table spans add column prompt_changed VARCHAR;
alter table resources add column source VARCHAR;
drop table if exists _turn_facts;
