-- What people say became of a refund about which nobody asks the gateway any more.

SET lock_timeout = '5s';

ALTER TABLE approvals DROP CONSTRAINT approvals_kind_check;
ALTER TABLE approvals ADD CONSTRAINT approvals_kind_check
    CHECK (kind IN ('new_epoch', 'redrive', 'refund', 'resolve_refund'));
-- One word on a refund is enough to ask for at a time.
CREATE UNIQUE INDEX approvals_one_word ON approvals ((request ->> 'refund'))
    WHERE status = 'pending' AND kind = 'resolve_refund';

ALTER TABLE refunds
    -- What was given back, where people found another amount than was asked for.
    ADD COLUMN given_back_minor bigint CHECK (given_back_minor > 0),
    -- Who said what became of it, on whose approval, and what they saw.
    ADD COLUMN resolved_by text,
    ADD COLUMN resolved_approval uuid,
    ADD COLUMN evidence jsonb,
    ADD CONSTRAINT a_word_is_whole CHECK (num_nonnulls(resolved_by, resolved_approval, evidence) IN (0, 3)),
    ADD CONSTRAINT a_word_ends_it CHECK (resolved_by IS NULL OR status IN ('refunded', 'declined')),
    ADD CONSTRAINT only_a_word_changes_the_amount
        CHECK (given_back_minor IS NULL OR resolved_by IS NOT NULL AND status = 'refunded');
-- The gateway's name of a refund is one refund's.
CREATE INDEX refunds_by_gateway_ref ON refunds (gateway, gateway_ref) WHERE gateway_ref IS NOT NULL;
-- Those that wait for people.
CREATE INDEX refunds_for_people ON refunds (asked_at, id) WHERE status = 'unknown' AND next_attempt_at IS NULL;

-- Closes one refund as its approval says, or says why not: the guard of domain/refund_resolution.rs on the locked
-- rows, and what closing does, in one transaction. A function of the owner: the API's role may write none of these
-- tables. The word is read from the approval alone, so that what the second person saw is what is done.
CREATE FUNCTION resolve_refund(of_refund uuid, by_approval uuid) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    known refunds;
    held refunds;
    charge refunded_charges;
    paid payments;
    moved payments;
    word approvals;
    at timestamptz;
    as_refunded boolean;
    of_reference text;
    given bigint;
    says_refunded boolean;
    last_claimed_at timestamptz;
    is_whole boolean;
    told jsonb;
BEGIN
    SELECT r.* INTO known FROM refunds r WHERE r.id = of_refund;
    -- The locks in the order of everything about refunds: payment, charge, refund.
    SELECT p.* INTO paid FROM payments p
    WHERE p.due_day = known.payment_day AND p.id = known.payment_id FOR UPDATE;
    SELECT c.* INTO charge FROM refunded_charges c
    WHERE c.gateway = known.gateway AND c.reference = known.reference FOR UPDATE;
    SELECT r.* INTO held FROM refunds r WHERE r.id = of_refund FOR UPDATE;
    at := clock_timestamp();
    SELECT a.* INTO word FROM approvals a
    WHERE a.id = by_approval AND a.kind = 'resolve_refund' AND a.payment_id = held.payment_id
      AND a.request ->> 'refund' = of_refund::text;
    as_refunded := word.request ->> 'as' = 'refunded';
    of_reference := word.request ->> 'gatewayReference';
    given := CASE WHEN as_refunded THEN (word.request ->> 'amount')::bigint ELSE 0 END;
    SELECT coalesce(bool_or(t.verdict = 'refunded'), false), max(t.claimed_at) INTO says_refunded, last_claimed_at
    FROM refund_attempts t WHERE t.refund_id = of_refund;

    IF held.id IS NULL OR paid.id IS NULL OR charge.payment_id IS NULL THEN
        RETURN 'no_such_refund';
    ELSIF word.id IS NULL THEN
        RETURN 'needs_approval';
    ELSIF held.status <> 'unknown' OR held.next_attempt_at IS NOT NULL THEN
        RETURN 'not_waiting';
    ELSIF NOT lineage_is_released() THEN
        -- R17: a restored refund may have been closed, or answered, after the backup.
        RETURN 'quarantined';
    ELSIF (word.request ->> 'attempt')::integer IS DISTINCT FROM held.attempt THEN
        RETURN 'changed';
    END IF;
    IF as_refunded THEN
        IF coalesce(of_reference, '') = '' THEN
            RETURN 'reference_missing';
        ELSIF held.gateway_ref <> of_reference THEN
            RETURN 'reference_differs';
        ELSIF given IS NULL OR given < 1 OR word.request ->> 'currency' IS DISTINCT FROM held.currency THEN
            RETURN 'amount_differs';
        ELSIF given > charge.charge_minor - charge.reserved_minor + held.amount_minor THEN
            RETURN 'above_charge';
        END IF;
        -- Of two words that give one name to two refunds the second sees the first. Nothing is locked behind it.
        PERFORM pg_advisory_xact_lock(hashtextextended(held.gateway || ' ' || of_reference, 1750));
        IF EXISTS (SELECT 1 FROM refunds o
                   WHERE o.gateway = held.gateway AND o.gateway_ref = of_reference AND o.id <> of_refund) THEN
            RETURN 'reference_taken';
        END IF;
    ELSE
        -- Nobody's word takes back what an answer said, or is said before the last request can be gone (R7).
        IF says_refunded OR held.gateway_ref IS NOT NULL THEN
            RETURN 'refund_on_record';
        ELSIF last_claimed_at > at - interval '1 hour' THEN
            RETURN 'too_recent';
        END IF;
    END IF;
    IF word.status <> 'approved' OR word.decided_by = word.asked_by THEN
        RETURN 'needs_approval';
    END IF;

    UPDATE refunds r SET
        status = CASE WHEN as_refunded THEN 'refunded' ELSE 'declined' END,
        open_sends = 0,
        gateway_ref = CASE WHEN as_refunded THEN of_reference ELSE r.gateway_ref END,
        given_back_minor = CASE WHEN as_refunded AND given <> r.amount_minor THEN given END,
        code = CASE WHEN as_refunded THEN r.code ELSE 'resolved_not_refunded' END,
        finished_at = at,
        resolved_by = word.asked_by,
        resolved_approval = word.id,
        evidence = word.request -> 'evidence'
    WHERE r.id = of_refund;
    UPDATE refunded_charges c SET
        reserved_minor = c.reserved_minor - held.amount_minor + given,
        refunded_minor = c.refunded_minor + given
    WHERE c.gateway = held.gateway AND c.reference = held.reference
    RETURNING c.* INTO charge;
    -- As in settle_refund.sql.
    is_whole := as_refunded AND charge.refunded_minor = charge.charge_minor AND paid.status IN ('COMPLETED', 'PARKED')
        AND coalesce(paid.gateway_ref, held.reference) = held.reference
        AND NOT EXISTS (SELECT 1 FROM refunded_charges o
                        WHERE o.payment_id = paid.id AND o.reference <> held.reference
                          AND o.refunded_minor < o.reserved_minor);
    told := jsonb_strip_nulls(jsonb_build_object('refund', held.id,
        'resolved', CASE WHEN as_refunded THEN 'refunded' ELSE 'not_refunded' END,
        'gatewayReference', held.reference, 'refundReference', CASE WHEN as_refunded THEN of_reference END,
        'amount', CASE WHEN as_refunded THEN given ELSE held.amount_minor END, 'currency', held.currency,
        'refundedInSum', charge.refunded_minor, 'reason', word.reason, 'evidence', word.request -> 'evidence',
        'approval', word.id, 'approvedBy', word.decided_by));
    UPDATE payments p SET
        status = CASE WHEN is_whole THEN 'REFUNDED' ELSE p.status END,
        status_reason = CASE WHEN is_whole THEN NULL ELSE p.status_reason END,
        last_moved_at = CASE WHEN is_whole THEN at ELSE p.last_moved_at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, paid.status,
            CASE WHEN is_whole THEN 'REFUNDED' ELSE paid.status END,
            CASE WHEN is_whole THEN 'refunded' ELSE 'noted' END, word.asked_by, p.fence, p.attempt, p.epoch, at,
            told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = paid.due_day AND p.id = paid.id
    RETURNING p.* INTO moved;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid, actor_id)
    VALUES (moved.id, moved.history_seq, paid.status, moved.status,
            CASE WHEN is_whole THEN 'refunded' ELSE 'noted' END, word.asked_by, moved.fence, moved.attempt,
            moved.epoch, at, told::text, moved.history_hash, moved.last_xid, moved.actor_id);
    IF is_whole THEN
        DELETE FROM parked h WHERE h.payment_id = moved.id;
    END IF;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, word.asked_by, 'resolve_refund', moved.id::text, word.reason,
            told - 'reason' || jsonb_build_object('version', moved.history_seq));
    RETURN CASE WHEN is_whole THEN 'refunded_whole' WHEN as_refunded THEN 'refunded' ELSE 'declined' END;
END
$$;

REVOKE ALL ON FUNCTION resolve_refund FROM PUBLIC;
GRANT EXECUTE ON FUNCTION resolve_refund TO punctual_api;
