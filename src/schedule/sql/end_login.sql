-- Called by end_login (whoever logs out of the dashboard). Those that would be over by now go with it, so that the table
-- holds no more than people log out within dashboard.session.
-- Index: the table's primary key; for the old ones none, the table is read whole. One row is written; none if the login
-- had been ended before.
--   $1 the login's number   $2 when it would end by itself
WITH over AS (DELETE FROM ended_logins o WHERE o.until < statement_timestamp())
INSERT INTO ended_logins (login, until) VALUES ($1, $2) ON CONFLICT (login) DO NOTHING
