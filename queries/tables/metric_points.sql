-- One row a point of a metric that arrived over OTLP (gauges and sums have a value; histograms a count, a sum and buckets).
create table metric_points (
  resource_id VARCHAR,                -- the sender, in table resources
  name VARCHAR,                       -- name of the metric, for example turnlens.slots.free
  kind VARCHAR,                       -- gauge, sum, histogram, exponential_histogram or summary
  unit VARCHAR,                       -- unit as the sender gave it
  time_ns BIGINT,                     -- when the value held [ns]
  start_ns BIGINT,                    -- since when a sum or a histogram counts [ns]
  value DOUBLE,                       -- value of a gauge or a sum
  monotonic BOOLEAN,                  -- whether a sum only grows
  temporality VARCHAR,                -- delta or cumulative, of sums and histograms
  count BIGINT,                       -- observations in a histogram or a summary
  sum DOUBLE,                         -- sum of the observations
  bounds DOUBLE[],                    -- upper bounds of the explicit buckets
  bucket_counts BIGINT[],             -- observations per bucket
  attributes VARCHAR,                 -- the point's attributes as JSON text, keys sorted
  received_ns BIGINT                  -- when the collector received it [ns]
);
