-- How often each destination was declined: card networks count tries per card, not per payment, and fine
-- those who go on.

SET lock_timeout = '5s';

-- 16 bytes of HMAC-SHA256(installation secret, label ‖ account ‖ payee): equal to domain/declines.rs (a test
-- holds it so). The two keys are the ones that the secret makes by RFC 2104, so that no HMAC need be computed
-- here; the label stands at the end of the inner one. Once payees are encrypted at rest, this cannot be
-- computed here any more, and the claim has to ask for the counts after it has opened them.
CREATE FUNCTION destination_digest(inner_key bytea, outer_key bytea, account text, payee bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(
        sha256(outer_key || sha256(inner_key || convert_to(hash_field(account), 'UTF8') || payee)) FROM 1 FOR 16);

-- Counts by the hour, and not by the day: a day's count would make "within 24 hours" mean anything from 24
-- to 48. An hour's makes it 24 to 25, and the error is on the strict side. The rows of one destination are
-- at most as many as its declines, and at most 745, since the keeper deletes what is older than 31 days.
CREATE TABLE destination_declines (
    destination bytea NOT NULL CHECK (octet_length(destination) = 16),
    -- When it begins, by UTC.
    hour timestamptz NOT NULL CHECK (mod(extract(epoch FROM hour), 3600) = 0),
    declines integer NOT NULL CHECK (declines > 0),
    PRIMARY KEY (destination, hour)
) WITH (fillfactor = 70);
-- The keeper's.
CREATE INDEX destination_declines_by_hour ON destination_declines (hour);

GRANT SELECT, INSERT, UPDATE, DELETE ON destination_declines TO punctual_worker;
GRANT SELECT ON destination_declines TO punctual_owner;
