-- Called by durability (the doctor): what the server promises about a COMMIT, for the connections that we use, and
-- whether this database may be worked on, and when a keeper last gave a sign of life.
-- Index: none; a row for each start of a server. One row, always.
SELECT clock_timestamp() AS database_now,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_standby_names') AS standbys,
       (SELECT max(r.last_seen_at) FROM database_runs r) AS keeper_seen_at,
       pg_is_in_recovery() AS is_standby,
       lineage_is_released() AS is_released,
       i.quarantined_at, i.quarantine_reason
FROM installation i
