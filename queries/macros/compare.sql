-- Two sides, figure by figure, each difference (b - a) with a 95 % interval. ``names_of`` says what ``a`` and ``b`` are names of: run,
-- version or engine; null where only times tell the sides apart [ns]. The other arguments narrow one side, or both; null: any.
--
-- The interval is a bootstrap: 1,000 times each conversation is taken never, once or several times, all of its turns together (see
-- macro _compared_draws). There is none below 5 conversations a side, nor where half of the draws have no such figure.
--
-- Example: from compare('run', 'before', 'after', null, null, null, null, null, null)
--
--   figure     a    b    difference  low   high  unit   kind   turns_a  turns_b  differs
--   hit_ratio  0.5  0.8  0.3         0.21  0.38  ratio  share  240      251      true
--
-- columns
--   figure VARCHAR -- which, as in macro compare_figures; those by verdict or cause end in it
--   a DOUBLE -- side a; null where it has no such turns
--   b DOUBLE -- side b
--   difference DOUBLE -- b - a
--   low DOUBLE -- 95 % of the drawn differences lie above this or at it, and below high; null where they are too few to say
--   high DOUBLE -- the upper end
--   unit VARCHAR -- turns, tokens, ratio or s
--   kind VARCHAR -- total, share, mean or quantile: a total grows with a side's turns
--   turns_a BIGINT -- turns that the figure of side a stands on
--   turns_b BIGINT -- of side b
--   differs BOOLEAN -- the interval leaves out 0; null without an interval
--   conversations_a BIGINT -- conversations that the figure of side a stands on
--   conversations_b BIGINT -- of side b
--   meaning VARCHAR -- the figure in words
create or replace macro compare(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run) as table
with drawn as materialized (
  from _compared_draws(names_of, a, b, a_since, a_until, b_since, b_until, the_engine, the_run)
),
facts as (
  select
    figure,
    max(value) filter (side = 'a') as value_a,
    max(value) filter (side = 'b') as value_b,
    coalesce(max(turns) filter (side = 'a'), 0)::bigint as turns_a,
    coalesce(max(turns) filter (side = 'b'), 0)::bigint as turns_b,
    coalesce(max(conversations) filter (side = 'a'), 0)::bigint as conversations_a,
    coalesce(max(conversations) filter (side = 'b'), 0)::bigint as conversations_b
  from drawn
  where draw = 0
  group by figure
),
intervals as (
  select figure, quantile_cont(y.value - x.value, [0.025, 0.975]) as bounds
  from drawn as x
  join drawn as y using (figure, draw)
  where x.side = 'a' and y.side = 'b' and draw > 0 and x.conversations >= 5 and y.conversations >= 5
  group by figure
  having count(y.value - x.value) > 500
)
select
  f.figure,
  f.value_a as a,
  f.value_b as b,
  f.value_b - f.value_a as difference,
  i.bounds[1] as low,
  i.bounds[2] as high,
  of.unit,
  of.kind,
  f.turns_a,
  f.turns_b,
  i.bounds[1] > 1e-9 or i.bounds[2] < -1e-9 as differs,  -- less is rounding
  f.conversations_a,
  f.conversations_b,
  replace(of.meaning, '*', substr(f.figure, length(of.figure))) as meaning
from facts as f
left join intervals as i using (figure)
join compare_figures() as of
  on of.figure = f.figure or (of.figure like '%.*' and starts_with(f.figure, rtrim(of.figure, '*')))
order by of.position, if(of.unit = 'ratio', greatest(coalesce(f.value_a, 0), coalesce(f.value_b, 0)), 0) desc, f.figure;
