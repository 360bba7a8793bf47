insert into resources by name select * replace (attributes::JSON::VARIANT as attributes) from arriving;
