-- API keys have names, so that one can take over from another; and whoever acts on keys is written down.

SET lock_timeout = '5s';

-- A key that nobody named is called by its id.
ALTER TABLE api_keys ADD COLUMN name text;
UPDATE api_keys SET name = id::text;
ALTER TABLE api_keys
    ALTER COLUMN name SET NOT NULL,
    ADD CONSTRAINT name_is_short CHECK (length(name) BETWEEN 1 AND 100);
CREATE INDEX api_keys_by_name ON api_keys (actor_id, name);

-- The three acts are functions of the owner, because the interface's role may not write keys: what it can do
-- with them is this, and never without a line in operator_acts. Where a key is made the actor is locked first, so
-- that the new keys of one actor follow each other, and looked at only then.

CREATE FUNCTION make_api_key(
    new_key uuid, new_actor uuid, of_actor text, of_name text, of_hash bytea, of_hint text, of_scopes text[],
    ends timestamptz, by_operator text, why text
) RETURNS TABLE (told text, owner_id uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz;
BEGIN
    INSERT INTO actors AS a (id, name) VALUES (new_actor, of_actor)
    ON CONFLICT (name) DO UPDATE SET name = excluded.name
    RETURNING a.id INTO owner_id;
    at := clock_timestamp();
    IF EXISTS (SELECT 1 FROM api_keys k
               WHERE k.actor_id = owner_id AND k.name = of_name AND k.revoked_at IS NULL
                 AND (k.expires_at IS NULL OR k.expires_at > at)) THEN
        told := 'name_taken';
    ELSE
        INSERT INTO api_keys (id, actor_id, name, hash, hint, scopes, created_at, expires_at)
        VALUES (new_key, owner_id, of_name, of_hash, of_hint, of_scopes, at, ends);
        INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
        VALUES (at, by_operator, 'api_key_made', 'api_key:' || new_key, why, jsonb_build_object(
            'actor', of_actor, 'name', of_name, 'scopes', to_jsonb(of_scopes), 'expiresAt', to_jsonb(ends)));
        told := 'made';
    END IF;
    RETURN NEXT;
END
$$;

-- A second live key of the same name and scopes; the old one ends after the overlap. Never a third.
CREATE FUNCTION rotate_api_key(
    old_key uuid, new_key uuid, of_hash bytea, of_hint text, overlap interval, ends timestamptz,
    by_operator text, why text
) RETURNS TABLE (told text, owner_id uuid, owner_name text, key_name text, key_scopes text[],
                 new_ends_at timestamptz, old_ends_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    held api_keys;
    at timestamptz;
BEGIN
    SELECT a.id, a.name INTO owner_id, owner_name
    FROM api_keys k JOIN actors a ON a.id = k.actor_id WHERE k.id = old_key
    FOR NO KEY UPDATE OF a;
    IF owner_id IS NULL THEN
        told := 'not_found';
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT k.* INTO held FROM api_keys k WHERE k.id = old_key FOR UPDATE;
    at := clock_timestamp();
    IF held.revoked_at IS NOT NULL OR held.expires_at <= at THEN
        told := 'not_live';
    ELSIF EXISTS (SELECT 1 FROM api_keys k
                  WHERE k.actor_id = owner_id AND k.name = held.name AND k.id <> old_key AND k.revoked_at IS NULL
                    AND (k.expires_at IS NULL OR k.expires_at > at)) THEN
        told := 'rotating';
    ELSE
        key_name := held.name;
        key_scopes := held.scopes;
        -- A key that was made for a time is followed by one for the same time.
        new_ends_at := coalesce(ends, at + (held.expires_at - held.created_at));
        INSERT INTO api_keys (id, actor_id, name, hash, hint, scopes, created_at, expires_at)
        VALUES (new_key, owner_id, held.name, of_hash, of_hint, held.scopes, at, new_ends_at);
        UPDATE api_keys k SET expires_at = least(k.expires_at, at + overlap) WHERE k.id = old_key
        RETURNING k.expires_at INTO old_ends_at;
        INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
        VALUES (at, by_operator, 'api_key_rotated', 'api_key:' || old_key, why, jsonb_build_object(
            'actor', owner_name, 'name', held.name, 'by', new_key, 'endsAt', to_jsonb(old_ends_at)));
        told := 'rotated';
    END IF;
    RETURN NEXT;
END
$$;

-- Ends a key for good; the first time counts.
CREATE FUNCTION revoke_api_key(old_key uuid, by_operator text, why text)
    RETURNS TABLE (told text, ended_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
BEGIN
    UPDATE api_keys k SET revoked_at = clock_timestamp() WHERE k.id = old_key AND k.revoked_at IS NULL
    RETURNING k.revoked_at INTO ended_at;
    IF FOUND THEN
        INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
        VALUES (ended_at, by_operator, 'api_key_revoked', 'api_key:' || old_key, why, '{}');
        told := 'revoked';
    ELSE
        SELECT k.revoked_at INTO ended_at FROM api_keys k WHERE k.id = old_key;
        told := CASE WHEN FOUND THEN 'revoked_before' ELSE 'not_found' END;
    END IF;
    RETURN NEXT;
END
$$;

REVOKE ALL ON FUNCTION make_api_key, rotate_api_key, revoke_api_key FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_api_key, rotate_api_key, revoke_api_key TO punctual_api, punctual_owner;
