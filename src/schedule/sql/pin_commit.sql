-- Called for each new connection of a pool: a role or a database that has commits answered before they are on the disk
-- is not followed. What the whole server says (postgresql.conf) is left: who says that means it, it is heard at once
-- when it changes, and the doctor tells of it.
-- Index: none (the settings). Zero rows: nothing was lowered there.
SELECT set_config('synchronous_commit', 'on', false) AS pinned
FROM pg_settings s
WHERE s.name = 'synchronous_commit' AND s.setting = 'off'
  AND s.source IN ('global', 'database', 'user', 'database user', 'client')
