-- Called at connect and by migrate: which migrations this database has.
-- Index: none. Zero rows, or error 42P01: it was never migrated.
SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version
