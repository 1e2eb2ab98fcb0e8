-- A gateway that decides later may say so on its own: a hint to ask now, taken once.

SET lock_timeout = '5s';

CREATE TABLE gateway_callbacks (
    gateway text NOT NULL,
    webhook_id text NOT NULL CHECK (length(webhook_id) BETWEEN 1 AND 255),
    payment_id uuid NOT NULL,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (gateway, webhook_id)
);
-- The keeper's.
CREATE INDEX gateway_callbacks_by_age ON gateway_callbacks (received_at);

-- Makes an UNKNOWN payment due now, with a new notice and a note in its history; answers what it found. A
-- function of the owner, because the API's role may neither move instants nor claim: this is all of it that a
-- gateway's word is worth.
CREATE FUNCTION take_gateway_callback(
    of_gateway text, webhook text, of_day date, of_payment uuid, of_shard smallint
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog AS $$
DECLARE
    held payments;
    noted payments;
    at timestamptz;
    told text := jsonb_build_object('callback', webhook)::text;
BEGIN
    -- Behind a claim or settle that holds the row it waits, and sees what that has written.
    SELECT p.* INTO held FROM payments p
    WHERE p.due_day = of_day AND p.id = of_payment AND p.gateway = of_gateway FOR UPDATE;
    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status = 'PROCESSING' THEN
        -- Its own answer is on the way to us. Not remembered, so that the same callback may come again.
        RETURN 'in_flight';
    ELSIF held.status <> 'UNKNOWN' THEN
        RETURN CASE held.status WHEN 'PENDING' THEN 'pending' WHEN 'PARKED' THEN 'parked' ELSE 'final' END;
    END IF;
    at := clock_timestamp();
    IF held.next_attempt_at <= at THEN
        -- Its notice is out, or the late scan has it.
        RETURN 'already_due';
    END IF;
    INSERT INTO gateway_callbacks VALUES (of_gateway, webhook, of_payment, at) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'duplicate';
    END IF;
    UPDATE payments p SET
        next_attempt_at = greatest(at, p.due_at),
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, p.status, p.status, 'noted',
            'gateway:' || of_gateway, p.fence, p.attempt, p.epoch, at, told),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = of_payment
    RETURNING p.* INTO noted;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid)
    VALUES (noted.id, noted.history_seq, noted.status, noted.status, 'noted', 'gateway:' || of_gateway, noted.fence,
            noted.attempt, noted.epoch, at, told, noted.history_hash, noted.last_xid);
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    VALUES (of_shard, noted.id, of_day, noted.gateway, noted.lane, noted.due_at, noted.next_attempt_at,
            noted.attempt);
    RETURN 'hinted';
END
$$;
REVOKE ALL ON FUNCTION take_gateway_callback FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_gateway_callback TO punctual_api;
GRANT SELECT, DELETE ON gateway_callbacks TO punctual_worker;
GRANT SELECT ON gateway_callbacks TO punctual_api, punctual_owner;
