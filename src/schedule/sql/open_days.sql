-- Called before every scan by time: the days that can hold open rows which are due, whether this
-- database is released and how much of a log its server has at which instant (R17), whether a worker went away whose
-- partitions may still wait for it, and what is switched off.
-- One row, always.
SELECT oldest_open_day, (statement_timestamp() AT TIME ZONE 'UTC')::date AS today, lineage_is_released() AS released,
       releases, durable_log() AS log_at, statement_timestamp() AS at, EXISTS (SELECT 1 FROM lost_charges) AS any_lost,
       EXISTS (SELECT 1 FROM workers w WHERE w.away_until > statement_timestamp()) AS someone_is_away,
       (SELECT array_agg(k.kind || ':' || k.value) FROM kill_switches k) AS switches
FROM installation
