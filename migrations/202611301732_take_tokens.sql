-- Tokens of an identity provider name actors; the interface's role may not write those itself.

SET lock_timeout = '5s';

-- The actor of this name, made if it is new; no row while the token does not hold, by this clock alone.
CREATE FUNCTION actor_of_token(fresh uuid, of_name text, not_before timestamptz, ends timestamptz)
    RETURNS TABLE (actor_id uuid, default_currency text, default_gateway text, database_now timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    IF at < not_before OR at >= ends THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT a.id, a.default_currency, a.default_gateway, at FROM actors a WHERE a.name = of_name;
    IF NOT FOUND THEN
        INSERT INTO actors (id, name) VALUES (fresh, of_name) ON CONFLICT (name) DO NOTHING;
        RETURN QUERY SELECT a.id, a.default_currency, a.default_gateway, at FROM actors a WHERE a.name = of_name;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION actor_of_token FROM PUBLIC;
GRANT EXECUTE ON FUNCTION actor_of_token TO punctual_api;
