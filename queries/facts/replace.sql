delete from _turn_facts
where (start_ns >= getvariable('facts_low_dirty') - 3_600_000_000_000 or end_ns is null or start_ns is null)
  and trace_digest in (select trace_digest from _stale)
  and (trace_id, span_id) in (select (trace_id, span_id) from _stale);
delete from _cause_facts
where (turn_start_ns >= getvariable('facts_low_stale') or turn_start_ns is null)
  and trace_digest in (select trace_digest from _stale)
  and (trace_id, turn_span_id) in (select (trace_id, span_id) from _stale);
insert into _turn_facts by name from _fresh_turns order by start_ns, span_id;
insert into _cause_facts by name from _fresh_causes order by turn_start_ns, turn_span_id, start_token;
