-- Called by forecast: the database's clock, the days that may have open rows, and the gateways on record with the
-- rate that a person holds each to, if any.
-- One row, always.
SELECT clock_timestamp() AS database_now, i.oldest_open_day,
       coalesce((SELECT array_agg(g.name ORDER BY g.name) FROM gateways g), '{}') AS gateways,
       coalesce((SELECT array_agg(g.rate_limit ORDER BY g.name) FROM gateways g), '{}') AS rate_limits
FROM installation i
