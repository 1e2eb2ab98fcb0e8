-- Called by forecast: the database's clock, the days that may have open rows, and the gateways on record.
-- One row, always.
SELECT clock_timestamp() AS database_now, i.oldest_open_day,
       coalesce((SELECT array_agg(g.name ORDER BY g.name) FROM gateways g), '{}') AS gateways
FROM installation i
