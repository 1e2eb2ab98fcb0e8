-- Called by repair_day: differences that a repair may settle, in the order in which they were found. What the report of
-- a day that still goes on shows as moved has moved: nothing more has to be waited for.
-- Index: reconciliation_items_unsettled, and for what is held already the parked ones of the gateway, each with
-- reconciliation_items_of_payment; one partition of payments for each whose payment was lost. Never what was settled
-- before. Zero rows: none is left.
--   $1 gateway   $2 day, or null   $3 behind this number   $4 at most
--   $5 how far repairs may go
WITH unsettled AS (
    SELECT i.number, i.payment_id, i.class, i.field
    FROM reconciliation_items i
    WHERE i.gateway = $1 AND i.status IN ('open', 'waiting') AND ($2::date IS NULL OR i.day = $2) AND i.number > $3
      AND i.payment_id IS NOT NULL AND (i.status = 'open' OR i.evidence ->> 'run' IS NOT NULL)
), held AS (
    -- Held by it when it was found: where programs complete what is parked, they complete that too.
    SELECT i.number, i.payment_id, i.class, i.field
    FROM parked k
    JOIN reconciliation_items i ON i.payment_id = k.payment_id
    WHERE $5 = 'automatic' AND k.gateway = $1 AND k.reason = 'charge_found'
      AND i.gateway = $1 AND i.status = 'repaired' AND i.class = 'missing_here'
      AND ($2::date IS NULL OR i.day = $2) AND i.number > $3
)
SELECT i.number
FROM (SELECT u.* FROM unsettled u UNION ALL SELECT h.* FROM held h) AS i
WHERE i.class IN ('missing_here', 'amount_mismatch', 'currency_mismatch', 'duplicate_charge') AND i.field <> 'payment'
   OR i.class = 'refund_mismatch' AND i.field IN ('status', 'refund')
   -- A restore had lost it, and its client posted it again: the line that showed its charge is at hand (R18).
   OR i.class = 'missing_here' AND i.field = 'payment' AND EXISTS (
       SELECT 1 FROM payments p
       WHERE p.due_day = payment_day(i.payment_id) AND p.id = i.payment_id AND p.status = 'PARKED'
         AND p.status_reason = 'charged_before')
ORDER BY i.number
LIMIT $4
