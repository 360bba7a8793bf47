-- The latest turns
from turns
order by started_at desc
limit 100;
