-- The figures of both sides of a comparison as they are (draw 0), and as they would be had each conversation come never, once or
-- several times instead (draws 1 to 1,000): how often says a digest of its id, as often as Poisson with mean 1. The same store gives
-- the same draws, and a conversation that is on both sides is drawn on both alike.
--
-- Past 200 conversations they are drawn in 200 groups. Of a quantile the share of turns at or below it is drawn, and the quantile
-- read where that share has moved to (Bahadur), in steps of a thousandth. Sorting every draw anew (0.6 s for 500 turns) would grow
-- with each turn a thousandfold; so 500 turns take 0.5 s in all, a million of 100,000 conversations 10 s beyond view turns. Where
-- nothing differed, 4 to 7 % of intervals left out 0 (150 trials of 30 conversations a side, ratios, medians and 90 % points).
--
-- Example: from _compared_draws('run', 'before', 'after', null, null, null, null, null, null) where figure = 'turns'
--
--   figure  side  draw  value  turns  conversations
--   turns   a     0     240    240    33
--   turns   a     1     251    240    33
create or replace macro _compared_draws(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run) as table
with parts as materialized (
  from _compared_parts(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run)
),
-- A figure of one side is a number while rows are many.
keys as materialized (
  select figure, side, row_number() over (order by figure, side) as key, any_value(kind) as kind, any_value(quantile) as quantile
  from parts
  group by figure, side
),
quantiles as materialized (
  select
    key,
    unnest(range(1001)) as step,
    unnest(quantile_cont(seconds, list_transform(range(1001), lambda step: step / 1000))) as seconds
  from (select figure, side, unnest(measured) as seconds from parts) as values_of
  join keys using (figure, side)
  group by key
),
shares as (
  select
    k.key,
    p.cluster,
    coalesce(p.numerator, len(list_filter(p.measured, lambda seconds: seconds <= q.seconds))) as numerator,
    coalesce(p.denominator, len(p.measured)) as denominator,
    p.turns
  from parts as p
  join keys as k using (figure, side)
  left join quantiles as q on q.key = k.key and q.step = round(1000 * k.quantile)
),
groups as (
  select cluster, if(count(*) over () > 200, 'group ' || md5_number_lower(cluster) % 200, cluster) as drawn
  from (select distinct cluster from parts) as clusters
),
grouped as materialized (
  select
    key,
    drawn,
    sum(numerator) as numerator,
    sum(denominator) as denominator,
    sum(turns) as turns,
    count(*) filter (denominator is null or denominator > 0) as conversations
  from shares
  join groups using (cluster)
  group by key, drawn
),
-- The sides as they are, and 1,000 times drawn: draw 0 takes every conversation once.
draws as materialized (
  select
    draw,
    drawn,
    case
      when draw = 0 or u between 0.36787944117144233 and 0.7357588823428847 then 1
      when u < 0.36787944117144233 then 0
      when u < 0.9196986029286058 then 2
      when u < 0.9810118431238462 then 3
      when u < 0.9963401531726563 then 4
      when u < 0.9994058151824183 then 5
      else 6
    end as times
  from (
    select draw, drawn, (md5_number_lower(draw || ' of ' || drawn) >> 11) / 9007199254740992 as u
    from (select distinct drawn from grouped) as all_drawn
    cross join unnest(range(1001)) as numbered (draw)
  ) as uniform
),
drawn_sums as materialized (
  select key, draw, sum(times * numerator) as numerator, sum(times * denominator) as denominator
  from grouped
  join draws using (drawn)
  group by key, draw
),
facts as (
  select g.key, sum(g.turns) as turns, sum(g.conversations) as conversations, sum(g.numerator) / nullif(sum(g.denominator), 0) as share
  from grouped as g
  group by g.key
)
select
  k.figure,
  k.side,
  s.draw,
  case k.kind when 'sum' then s.numerator when 'ratio' then s.numerator / nullif(s.denominator, 0) else q.seconds end as value,
  f.turns,
  f.conversations
from drawn_sums as s
join keys as k using (key)
join facts as f using (key)
left join quantiles as q
  on q.key = s.key
  and q.step = round(1000 * greatest(0, least(1, k.quantile + f.share - s.numerator / nullif(s.denominator, 0))));
