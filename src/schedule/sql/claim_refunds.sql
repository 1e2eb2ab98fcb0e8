-- Called by claim_refunds: the due refunds of one gateway, the oldest first, each with a fence and a lease of its
-- own. Rows locked by others are theirs.
-- Index: refunds_claimable; reconciliation_items_of_payment. Zero rows: nothing is due, or what is due is switched off
-- (R14), quarantined, held until the lost time is compared, or shown by a report as given back already (R17).
-- From the claim on a request may be under way, so `open_sends` and the key's age are written here (R4, R6).
--   $1 gateway   $2 account   $3 worker   $4 lease length   $5 fresh claim ids
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), locked AS MATERIALIZED (
    SELECT r.id, r.status AS was, r.first_sent_at AS was_first_sent_at, r.open_sends AS others_open
    FROM refunds r
    WHERE r.gateway = $1 AND r.status IN ('approved', 'unknown') AND r.next_attempt_at <= statement_timestamp()
      -- R4: a key is unique only within its account.
      AND (r.account IS NULL OR r.account = $2)
      AND (SELECT lineage_is_released() AND NOT refunds_are_held($1))
      -- A report that counts has it, by its own key, or has one of this payment that nobody here knows, or that stands
      -- here as never sent: sent again it may be a second one. One that is unknown is asked about, not sent anew. A
      -- repair ends it, or a withdrawn report. One that was replaced holds it until its day is compared with what took
      -- its place: until then nobody knows whether that has it too.
      AND (r.status <> 'approved' OR NOT EXISTS (
          SELECT 1 FROM reconciliation_items i
          JOIN reconciliation_runs u ON u.id = (i.evidence ->> 'run')::uuid AND (
              u.status IN ('loaded', 'compared')
              OR u.withdrawn_at IS NULL AND EXISTS (
                  SELECT 1 FROM reconciliation_runs n
                  WHERE n.gateway = u.gateway AND n.day = u.day AND n.status = 'loaded'))
          WHERE i.payment_id = r.payment_id AND i.gateway = r.gateway AND i.class = 'refund_mismatch'
            AND (i.field IN ('status', 'refund') AND (i.refund_id = r.id OR i.key = r.id::text)
                   AND i.status <> 'superseded'
                 OR i.field IN ('status', 'refund') AND i.status IN ('open', 'waiting'))))
      -- A payment that was released again has its own claims; what is given back waits for their end. One that
      -- ended otherwise may have a late charge on record.
      AND EXISTS (SELECT 1 FROM payments p
                  WHERE p.due_day = r.payment_day AND p.id = r.payment_id
                    AND p.status IN ('COMPLETED', 'PARKED', 'REFUNDED', 'FAILED', 'CANCELLED'))
      AND NOT EXISTS (
          SELECT 1 FROM kill_switches k
          WHERE k.kind = 'global' OR k.kind = 'gateway' AND k.value = r.gateway
             OR k.kind = 'actor' AND k.value = r.payer::text OR k.kind = 'currency' AND k.value = r.currency)
    ORDER BY r.next_attempt_at, r.id
    LIMIT cardinality($5::uuid[])
    FOR UPDATE OF r SKIP LOCKED
), named AS MATERIALIZED (
    SELECT l.*, f.claim_id
    FROM (SELECT l.*, row_number() OVER () AS place FROM locked l) AS l
    JOIN unnest($5::uuid[]) WITH ORDINALITY AS f (claim_id, place) USING (place)
), claimed AS (
    UPDATE refunds r SET
        status = 'sending',
        fence = r.fence + 1,
        claim_id = n.claim_id,
        lease_until = m.at + $4::interval,
        attempt = r.attempt + 1,
        open_sends = r.open_sends + 1,
        first_sent_at = coalesce(r.first_sent_at, m.at),
        account = coalesce(r.account, $2)
    FROM named n, moment m
    WHERE r.id = n.id AND r.status = n.was
    RETURNING r.*, n.was, n.was_first_sent_at, n.others_open, m.at
), attempt AS (
    INSERT INTO refund_attempts (refund_id, attempt, claim_id, fence, worker, was, claimed_at)
    SELECT c.id, c.attempt, c.claim_id, c.fence, $3, c.was, c.at FROM claimed c
)
SELECT c.id, c.payment_id, c.payer, c.gateway, c.reference, c.amount_minor, c.currency, c.was, c.fence, c.claim_id,
       c.attempt, c.asks, c.others_open, c.was_first_sent_at AS first_sent_at,
       (extract(epoch FROM c.at - c.was_first_sent_at) * 1000000)::bigint AS key_age_us
FROM claimed c
ORDER BY c.asked_at, c.id
