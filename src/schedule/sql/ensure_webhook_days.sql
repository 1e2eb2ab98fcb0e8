-- Called by migrate and by the keeper: days of webhooks from yesterday, whose last events are still being written, to
-- a week ahead.
-- Index: none (the catalogue). One row: how many partitions were made.
SELECT ensure_webhook_days((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 7) AS made
