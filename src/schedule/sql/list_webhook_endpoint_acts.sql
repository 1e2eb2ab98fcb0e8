-- Called by webhook_endpoint: what was done to an endpoint, newest first.
-- Index: the primary key. Zero rows: there is no such endpoint.
--   $1 endpoint   $2 at most so many
SELECT a.version, a.at, a.act, a.done_by, a.detail
FROM webhook_endpoint_acts a
WHERE a.endpoint_id = $1
ORDER BY a.version DESC
LIMIT $2
