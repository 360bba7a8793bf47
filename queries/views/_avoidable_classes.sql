-- Classes of causes by which new text was computed although a cache could have had it: one row each. Other new text is nobody's
-- fault, and costs nothing.
--
-- columns
--   class VARCHAR -- class of a cause
create or replace view _avoidable_classes as
select class
from (values ('prefix_changed'), ('state_not_restorable'), ('restore_skipped'), ('placement')) as listed (class);
