-- What is random, and names of things. Every draw is a hash of what is drawn, of whom and of the seed: nothing has to be kept, and
-- the same seed makes the same store with the same version of DuckDB.

-- A number in [0, 1).
create or replace temp macro draw(what, who) as hash(what, who, getvariable('seed')) / 18446744073709551616.0;

-- A number of the normal distribution.
create or replace temp macro draw_normal(what, who) as
  sqrt(-2 * ln(draw(what || ' radius', who) + 1e-12)) * cos(2 * pi() * draw(what || ' angle', who));

-- A turn is known by one number, so that its neighbours are found without a search: 512 * conversation + place in it.
create or replace temp macro conversation_of_turn(turn) as 'conv-' || lpad((turn // 512)::varchar, 7, '0');
create or replace temp macro name_of_turn(turn) as conversation_of_turn(turn) || '-t' || lpad((turn % 512 + 1)::varchar, 3, '0');
create or replace temp macro request_of_turn(turn) as
  'chatcmpl-' || left(md5(concat('request', turn, '/', getvariable('seed'))), 24);
create or replace temp macro trace_of_turn(turn) as md5(concat('trace', turn, '/', getvariable('seed')));
create or replace temp macro span_of(what, who) as left(md5(concat(what, who, '/', getvariable('seed'))), 16);

-- Engines 0 to 3 keep snapshots in slots, 4 to 7 keep blocks of 16 tokens; 0, 1, 4 and 5 have a host tier.
create or replace temp macro has_snapshots(engine) as engine < 4;
create or replace temp macro has_host(engine) as engine in (0, 1, 4, 5);
create or replace temp macro resource_of(engine) as md5(concat('resource', engine, '/', getvariable('seed')));

-- The system prompt of an application [tokens]; three of ten have none that is shared.
create or replace temp macro system_tokens(app) as case when app < 3 then 0 else 800 * (1 + app * 7 % 6) end;

-- Keys: of an application's system prompt, of a turn's two snapshots (0: its prompt, 1: with its answer), of a block. Most of a
-- store is keys of blocks: two hashes are written in a third of the time of an md5.
create or replace temp macro system_key(app) as md5(concat('system', app));
create or replace temp macro snapshot_key(turn, part) as md5(concat('snapshot', turn, '/', part, '/', getvariable('seed')));
create or replace temp macro block_key(app, turn, epoch, place) as
  case
    when place < system_tokens(app) // 16 then md5(concat('system', app, '/', place))
    else to_hex(hash('key', turn // 512, epoch, place, getvariable('seed')))
      || to_hex(hash('and', turn // 512, epoch, place, getvariable('seed')))
  end;
create or replace temp macro block_keys(app, turn, epoch, first_place, end_place) as
  list_transform(range(first_place, end_place), lambda place: block_key(app, turn, epoch, place));
