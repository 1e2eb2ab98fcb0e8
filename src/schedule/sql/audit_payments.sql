-- Called by audit: the payments of a window of due days with what belongs to them, by id.
-- Index: the partitions' primary keys. Zero rows: nothing is due in the window.
--   $1 first due day   $2 last due day
SELECT p.due_day, p.id, p.gateway, p.status, p.status_reason, p.due_at, p.execute_within_s, p.next_attempt_at, p.amount_minor, p.currency, p.attempt,
       p.max_sends, p.fence, p.lease_until, p.last_moved_at, p.history_seq, p.history_hash,
       d.payee_sealed, d.key_version, h.reason AS parked_reason
FROM payments p
JOIN payment_details d ON d.due_day = p.due_day AND d.id = p.id
LEFT JOIN parked h ON h.payment_id = p.id
WHERE p.due_day BETWEEN $1 AND $2
ORDER BY p.id
