-- Called by list: those payments of one due day that are this actor's and pass a filter. It says of a row what
-- domain/filter.rs says of a payment.
-- Index: the partitions' primary keys; the day is a plain parameter, so no other is planned for. Zero
-- rows: none of them fits.
--   $1 due day   $2 payment ids   $3 actor   $4 states, null for all
--   Of a filter's terms what must be (null for anything) and what must not: $5, $6 states   $7, $8 reasons
--   $9, $10 gateways   $11, $12 references   $13, $14 least and most amount   $15, $16 ends of the amounts that
--   must not be   $17, $18 ends of the due times that must not be
SELECT p.*, d.payee_sealed, d.description, d.metadata, d.external_id
FROM payments p
JOIN payment_details d ON d.due_day = $1 AND d.id = p.id
WHERE p.due_day = $1 AND p.id = ANY ($2) AND p.actor_id = $3 AND ($4::text[] IS NULL OR p.status = ANY ($4))
  AND ($5::text[] IS NULL OR p.status = ANY ($5)) AND p.status <> ALL ($6::text[])
  -- A missing reason or reference is none of any.
  AND ($7::text[] IS NULL OR p.status_reason = ANY ($7))
  AND (p.status_reason IS NULL OR p.status_reason <> ALL ($8::text[]))
  AND ($9::text[] IS NULL OR p.gateway = ANY ($9)) AND p.gateway <> ALL ($10::text[])
  AND ($11::text[] IS NULL OR p.gateway_ref = ANY ($11))
  AND (p.gateway_ref IS NULL OR p.gateway_ref <> ALL ($12::text[]))
  AND p.amount_minor BETWEEN $13 AND $14
  AND NOT EXISTS (SELECT 1 FROM unnest($15::bigint[], $16::bigint[]) AS n (low, high)
                  WHERE p.amount_minor BETWEEN n.low AND n.high)
  AND NOT EXISTS (SELECT 1 FROM unnest($17::timestamptz[], $18::timestamptz[]) AS n (low, high)
                  WHERE p.due_at BETWEEN n.low AND n.high)
