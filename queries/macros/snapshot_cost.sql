-- What a snapshot costs: time to first token by least squares against the number of messages, publishes or restores, and tokens.
-- One row an engine, a kind of turns and a part of their time. ``reuse``: cold (nothing of the prompt was reused), warm (the whole
-- of it, up to the last unit: what is left a message is looking it up), grown (all that had been seen, and new text behind it),
-- restored (turns with restored tokens). ``seconds_of``: served (arrival to first token without the queue) = frontend + engine;
-- restore is within the engine's. Of the two counts those take part that vary; intervals are Student's, 95 %.
--
-- Example: 14,000 tokens in 4 to 240 messages, cold, take 0.155 s more of the engine's time with each message:
--
--   reuse  seconds_of  per      turns  fitted  seconds_each
--   cold   engine      message  4      things  0.155
--
-- Example: from snapshot_cost('ring0', null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   reuse VARCHAR -- cold, warm, grown or restored
--   seconds_of VARCHAR -- served, frontend, engine or restore
--   per VARCHAR -- message, publish or restore: what seconds_each is for one of
--   turns BIGINT -- turns that the fit stands on
--   fitted VARCHAR -- what varied: things, tokens or both; nothing; inseparable (both, always together). No slope for what did not
--   seconds_each DOUBLE -- slope per message, publish or restore [s]
--   seconds_each_low DOUBLE -- lower end of its 95 % interval; null with as many turns as parameters [s]
--   seconds_each_high DOUBLE -- upper end [s]
--   tokens_of VARCHAR -- which tokens: prompt, computed or restored
--   seconds_per_token DOUBLE -- slope per token [s]
--   seconds_per_token_low DOUBLE -- lower end of its 95 % interval [s]
--   seconds_per_token_high DOUBLE -- upper end [s]
--   seconds_at_none DOUBLE -- intercept: what is left without any of them [s]
--   error_seconds DOUBLE -- standard error of a turn against the fit [s]
create or replace macro snapshot_cost(the_engine, the_run, since, until) as table
with sums as (
  select
    engine, reuse, seconds_of, per, tokens_of,
    count(*) as n,
    count(distinct things) > 1 as things_vary,
    count(distinct tokens) > 1 as tokens_vary,
    avg(seconds) as mean_y, avg(things) as mean_x, avg(tokens) as mean_z,
    regr_syy(seconds, things) as yy,
    regr_sxx(seconds, things) as xx,
    regr_sxx(seconds, tokens) as zz,
    regr_sxy(seconds, things) as xy,
    regr_sxy(seconds, tokens) as zy,
    regr_sxy(things, tokens) as xz
  from _cost_points_in(the_engine, the_run, since, until)
  group by all
),
chosen as (
  select
    *,
    case
      when not things_vary and not tokens_vary then 'nothing'
      when not tokens_vary then 'things'
      when not things_vary then 'tokens'
      when n < 3 or xz * xz >= (1 - 1e-9) * xx * zz then 'inseparable'
      else 'both'
    end as fitted,
    xx * zz - xz * xz as d
  from sums
),
slopes as (
  select
    *,
    case fitted when 'things' then xy / xx when 'both' then (zz * xy - xz * zy) / d end as b,
    case fitted when 'tokens' then zy / zz when 'both' then (xx * zy - xz * xy) / d end as c,
    case fitted when 'things' then 1 / xx when 'both' then zz / d end as b_spread,
    case fitted when 'tokens' then 1 / zz when 'both' then xx / d end as c_spread,
    n - case when fitted = 'both' then 3 when fitted in ('things', 'tokens') then 2 end as freedom
  from chosen
),
errors as (
  select
    *,
    case when freedom > 0 then sqrt(greatest(yy - coalesce(b * xy, 0) - coalesce(c * zy, 0), 0) / freedom) end as error,
    -- Student's t at 97.5 %: from a table up to 10, then Fisher's expansion of it about the normal, good to 0.001.
    case
      when freedom <= 10 then [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228][freedom]
      else 1.95996 + 2.37227 / freedom + 2.82250 / freedom ** 2 + 2.55585 / freedom ** 3
    end as t
  from slopes
)
select
  engine, reuse, seconds_of, per, n as turns, fitted,
  b as seconds_each, b - t * error * sqrt(b_spread) as seconds_each_low, b + t * error * sqrt(b_spread) as seconds_each_high,
  tokens_of,
  c as seconds_per_token,
  c - t * error * sqrt(c_spread) as seconds_per_token_low,
  c + t * error * sqrt(c_spread) as seconds_per_token_high,
  case when fitted <> 'inseparable' then mean_y - coalesce(b * mean_x, 0) - coalesce(c * mean_z, 0) end as seconds_at_none,
  error as error_seconds
from errors
order by engine, reuse, per, seconds_of desc;
