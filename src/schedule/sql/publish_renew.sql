-- Called by renew_publisher, and by release_publisher with a negative length: ours for so long from now.
-- Index: the primary key. Zero rows: the lane was taken, or the database is another one than it was.
--   $1 lane   $2 holder   $3 epoch   $4 for how long
UPDATE publisher_cursor SET until = clock_timestamp() + $4::interval
WHERE lane = $1 AND holder = $2 AND epoch = $3 AND system_identifier = split_part(current_lineage(), '/', 1)
RETURNING epoch
