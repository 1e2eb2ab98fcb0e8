-- Called on every new connection: lowers it to the group role of its work, if the login may.
-- Index: none (the catalogue). Zero rows: no such role, or the login is no member; it stays what it is.
--   $1 role
SELECT set_config('role', r.rolname::text, false) AS role
FROM pg_roles r
WHERE r.rolname = $1 AND pg_has_role(session_user, r.oid, 'MEMBER')
