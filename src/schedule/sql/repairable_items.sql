-- Called by repair_day: differences that a repair may settle, in the order in which they were found. What the report of
-- a day that still goes on shows as moved has moved: nothing more has to be waited for.
-- Index: the primary key, and one partition of payments for each whose payment was lost. Zero rows: none is left.
--   $1 gateway   $2 day, or null   $3 behind this number   $4 at most
--   $5 how far repairs may go
SELECT i.number
FROM reconciliation_items i
WHERE i.gateway = $1 AND ($2::date IS NULL OR i.day = $2) AND i.payment_id IS NOT NULL
  AND (i.status = 'open' OR i.status = 'waiting' AND i.evidence ->> 'run' IS NOT NULL
       -- Held by it when it was found: where programs complete what is parked, they complete that too.
       OR $5 = 'automatic' AND i.status = 'repaired' AND i.class = 'missing_here'
          AND i.payment_id IN (SELECT k.payment_id FROM parked k WHERE k.gateway = $1 AND k.reason = 'charge_found'))
  AND (i.class IN ('missing_here', 'amount_mismatch', 'currency_mismatch', 'duplicate_charge') AND i.field <> 'payment'
       OR i.class = 'refund_mismatch' AND i.field IN ('status', 'refund')
       -- A restore had lost it, and its client posted it again: the line that showed its charge is at hand (R18).
       OR i.class = 'missing_here' AND i.field = 'payment' AND EXISTS (
           SELECT 1 FROM payments p
           WHERE p.due_day = payment_day(i.payment_id) AND p.id = i.payment_id AND p.status = 'PARKED'
             AND p.status_reason = 'charged_before'))
  AND i.number > $3
ORDER BY i.number
LIMIT $4
