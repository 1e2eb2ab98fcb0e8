-- Called by ended_logins (every process that serves the dashboard, every few seconds while somebody looks).
-- Index: none; the table holds the logins that were ended within dashboard.session. No row: none was.
SELECT e.login FROM ended_logins e WHERE e.until >= statement_timestamp()
