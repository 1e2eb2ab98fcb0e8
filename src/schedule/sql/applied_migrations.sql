-- Called at connect: which migrations this database has.
-- Index: none. Zero rows, or error 42P01: it was never migrated.
SELECT version, success FROM _sqlx_migrations ORDER BY version
