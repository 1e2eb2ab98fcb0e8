-- One clock that only the test moves, in the place of the server's: every statement and function of ours
-- calls the clock without naming a schema, so a function of the same name that is found first is the
-- clock. The texts under test stay as they are.
CREATE TABLE test_clock (at timestamptz NOT NULL);
INSERT INTO test_clock VALUES (pg_catalog.now());
GRANT SELECT ON test_clock TO PUBLIC;
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT at FROM public.test_clock';
CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT at FROM public.test_clock';
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT at FROM public.test_clock';
CREATE FUNCTION public.us(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
    AS 'SELECT (extract(epoch FROM $1) * 1000000)::bigint';
ALTER TABLE due_notices ALTER COLUMN written_at SET DEFAULT public.clock_timestamp();
DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
END
$$;
