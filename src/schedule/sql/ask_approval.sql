-- Called by ask_approval, in its transaction. The unique index holds that one release of a payment is asked for
-- at a time; of two who ask at once the second waits here and then makes nothing.
-- Index: approvals_one_release. Zero rows: one waits already (waiting_approval.sql).
--   $1 id   $2 kind   $3 payment id   $4 asked by   $5 reason   $6 request
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
)
INSERT INTO approvals (id, kind, payment_id, asked_by, reason, request, asked_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, m.at, m.at + interval '1 day' FROM moment m
ON CONFLICT DO NOTHING
RETURNING id, kind, payment_id, asked_by, reason, request, status, decided_by, decided_reason, asked_at, decided_at,
    expires_at
