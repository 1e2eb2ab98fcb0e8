-- Called by the keeper.
-- Index: webhook_deliveries_due of each old day, in the function. One row: how many days were dropped.
--   $1 days before today that are kept
SELECT drop_drained_webhook_days($1) AS dropped
