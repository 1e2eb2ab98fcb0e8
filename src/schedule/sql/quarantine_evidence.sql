-- Called for people: what was found of one quarantine, in the order in which it was.
-- Index: the primary key. Zero rows: none of this number.
--   $1 quarantine
SELECT e.at, e.kind, e.payment_id, e.what FROM quarantine_evidence e WHERE e.quarantine_id = $1 ORDER BY e.number
