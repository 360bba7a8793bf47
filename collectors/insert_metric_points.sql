insert into metric_points by name select * from arriving;
