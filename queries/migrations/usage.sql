-- Version 5: what others count of turns. Facts have a column more, and are told anew.
drop table if exists _turn_facts;
