-- A second lane of the publisher's cursor: from the history to what is owed to endpoints.

SET lock_timeout = '5s';

-- From here and now on: no endpoint is older, so what was published before is owed to none. Made here and not by
-- the first publisher, who may come later than the first endpoint.
INSERT INTO publisher_cursor (lane, system_identifier, xid, seq, payment_id, floor_at)
VALUES ('webhooks', split_part(current_lineage(), '/', 1), pg_snapshot_xmin(pg_current_snapshot()), 0,
        '00000000-0000-0000-0000-000000000000', clock_timestamp() - interval '1 day')
ON CONFLICT DO NOTHING;
