-- The spans that these turns' facts follow from, in the place of all: the views that tell facts read ``spans``. Of publishes and
-- evictions only the keys that are looked for (and null for the others: how many they are counts), of turns their own only where
-- there are replicas; of all only the columns that those views read.
create temporary table spans as
select
  s.* exclude (
      kind, status_code, status_message, trace_state, flags, scope_name, scope_version, received_ns, faults, input_tokens,
      cache_read_tokens, parent_key, admit_missing_key, retry_reasons,
      running, waiting, first_token, last_token, steps, bytes, slots, trigger, owner_turn_id, age_ns, links, events,
      dropped_attributes, attributes
    )
    replace (
      case
        when s.name in ('snapshot.publish', 'snapshot.evict') then list_resize(f.keys, len(s.keys))
        when s.name = 'turn' and s.resource_id in (select resource_id from _peers) then s.keys
      end as keys
    )
from spans as s
left join (select place, list(distinct key) as keys from _found group by place) as f on f.place = s.rowid
where ({windows}) and s.rowid in (select place from _wanted);
