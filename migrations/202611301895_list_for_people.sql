-- What people look for over all clients, a page at a time.

SET lock_timeout = '5s';

-- Bulk re-drives, the newest first.
CREATE INDEX bulk_redrives_by_age ON bulk_redrives (created_at, id);
