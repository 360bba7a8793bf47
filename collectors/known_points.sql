-- Which of the arriving metric points the store has already, within the times of one cluster. Null equals null here.
select arriving.row
from arriving
semi join (select * from metric_points where time_ns between $low and $high) as stored
  on arriving.time_ns = stored.time_ns
  and arriving.resource_id = stored.resource_id
  and arriving.name = stored.name
  and arriving.attributes is not distinct from stored.attributes
  and arriving.start_ns is not distinct from stored.start_ns;
