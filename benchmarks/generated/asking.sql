-- What is asked: conversations that arrive evenly, of geometric length (12 turns in the mean, one in 500 of 300), and how their
-- prompts grow. An epoch is a stretch in which they only do; a new one begins where the history was edited or compacted.
--
-- Example: two turns and one that begins anew, system prompt 800:
--
--   turn  k  epoch  first  prompt  output  before_prompt  before_output
--   512   0  1      true     1500     120
--   513   1  1      false    1740      90           1500            120
--   514   2  2      true     1400      80           1740             90
create table plan.asked as
with conversations as (
  select
    conversation,
    floor(8 * draw('engine', conversation))::int as engine,
    floor(10 * draw('app', conversation))::int as app,
    case
      when draw('long', conversation) < 0.002 then 300
      else least(1 + floor(ln(draw('turns', conversation) + 1e-12) / ln(11 / 12)), 250)
    end::bigint as turns,
    getvariable('begin_ns')
    + ((conversation + draw('arrival', conversation)) * getvariable('nanoseconds_between'))::bigint as begin_ns
  from range(getvariable('conversations')) as numbers(conversation)
),
drawn as (
  select *, 512 * conversation + k as turn
  from (select *, unnest(range(turns)) as k from conversations)
),
texts as (
  select
    turn,
    conversation,
    k,
    engine,
    app,
    begin_ns,
    k = 0 or draw('edit', turn) < 0.0125 as first,
    1 + least(exp(4.8 + 0.8 * draw_normal('answer', turn)), 2000)::bigint as output,
    4 + least(exp(4.6 + draw_normal('question', turn)), 8000)::bigint
    + case when draw('tool', turn) < 0.03 then (3000 * draw('tool result', turn))::bigint else 0 end as question,
    200 + least(exp(6.5 + 0.8 * draw_normal('opening', turn)), 20000)::bigint as opening,
    -- Seconds to hours between turns; not longer than the recorder of such an engine remembers.
    case
      when k > 0
        then 1 + least(exp(3 + 1.6 * draw_normal('pause', turn)), case when has_snapshots(engine) then 21600 else 4800 end)
      else 0
    end as pause_seconds
  from drawn
),
epochs as (
  select *, sum(first::int) over (partition by conversation order by k)::int as epoch
  from texts
),
prompts as (
  select
    *,
    (
      system_tokens(app)
      + sum(case when first then opening else question end) over so_far
      + sum(output) over so_far
      - output
    )::bigint as prompt
  from epochs
  window so_far as (partition by conversation, epoch order by k)
)
select
  turn,
  conversation,
  k,
  engine,
  app,
  begin_ns,
  epoch,
  first,
  prompt,
  output,
  pause_seconds,
  lag(prompt) over in_order as before_prompt,
  lag(output) over in_order as before_output,
  lag(first) over in_order as before_first,
  lag(prompt, 2) over in_order as before2_prompt,
  lag(output, 2) over in_order as before2_output
from prompts
window in_order as (partition by conversation order by k);
