-- Called for people: what is missing before the open quarantine may be released.
-- Index: the keys of runs and items. Zero rows: nothing, or there is no quarantine.
--   $1 days behind the lost ones in which a charge may still be booked   $2 gateways that are configured
SELECT l.lack, l.of_gateway, l.of_day, l.items, l.askable_from, l.partly_seen_at FROM quarantine_lacks($1, $2) AS l
