-- Which of the arriving resources the store has already.
select resource_id from resources semi join arriving using (resource_id);
