-- What a settlement report shows as charged is neither released nor called not charged, whatever the line calls the
-- charge: a bank's name of it, none, and another payment's stand nowhere in the payment's own row.

SET lock_timeout = '5s';

-- Does a line of a report that counts show a charge of this payment that we do not know to be one? Of a report whose place
-- another took the line stands until its day is compared with that one, which finds it again or does not. A report that
-- people took out shows nothing, and what they dismissed is argued away.
CREATE FUNCTION charge_is_reported(of_payment uuid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM reconciliation_items i
        JOIN reconciliation_runs r ON r.id = i.run_id
        WHERE i.payment_id = of_payment AND i.class = 'missing_here' AND i.status IN ('open', 'waiting', 'repaired')
          AND r.withdrawn_at IS NULL
          AND (r.status IN ('loaded', 'compared')
               OR EXISTS (SELECT FROM reconciliation_runs n
                          WHERE n.gateway = i.gateway AND n.day = i.day AND n.status = 'loaded')))
$$;

-- As before, but for what reports show.
CREATE OR REPLACE FUNCTION redrive_locked(
    of_day date, of_payment uuid, of_shard smallint, to_new_epoch boolean, retryable text[],
    whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held payments;
    released payments;
    at timestamptz;
    charged boolean;
    for_good boolean;
    declined_here boolean;
    voided_here boolean;
    is_clean boolean;
    second_person text;
    told jsonb;
BEGIN
    -- Behind another console that holds the row it waits, and sees what that has written.
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = of_payment FOR UPDATE;
    at := clock_timestamp();
    SELECT coalesce(bool_or(t.verdict = 'charged'), false),
           coalesce(bool_or(t.verdict = 'declined' AND coalesce(t.code, '') <> ALL (retryable)), false),
           coalesce(bool_or(t.verdict = 'declined' AND t.epoch = held.epoch), false),
           coalesce(bool_or(t.verdict = 'voided' AND t.epoch = held.epoch), false)
    INTO charged, for_good, declined_here, voided_here
    FROM attempts t WHERE t.due_day = of_day AND t.payment_id = of_payment;

    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status <> 'PARKED' THEN
        RETURN 'not_parked';
    ELSIF NOT lineage_is_released() THEN
        -- R17: a restored row may be parked that was released, and charged, after the backup.
        RETURN 'quarantined';
    ELSIF of_version <> held.history_seq THEN
        RETURN 'changed';
    ELSIF charged OR held.gateway_ref IS NOT NULL OR charge_is_reported(of_payment) THEN
        RETURN 'charge_on_record';
    ELSIF for_good THEN
        RETURN 'declined_for_good';
    END IF;
    IF to_new_epoch THEN
        -- R4: every send of this key is answered, and one answer proves that it did not charge.
        IF held.unanswered > 0 AND NOT voided_here THEN
            RETURN 'open_send';
        ELSIF held.epoch_first_sent_at IS NULL THEN
            RETURN 'key_unused';
        ELSIF held.cancel_wish_at IS NOT NULL OR held.execute_before <= at THEN
            RETURN 'no_charge_wanted';
        ELSIF NOT declined_here AND NOT voided_here THEN
            RETURN 'not_proven';
        END IF;
    END IF;
    IF by_approval IS NOT NULL THEN
        SELECT a.decided_by INTO second_person FROM approvals a
        WHERE a.id = by_approval AND a.payment_id = of_payment AND a.status = 'approved' AND a.asked_by = whose
          AND a.decided_by <> whose AND a.kind = CASE WHEN to_new_epoch THEN 'new_epoch' ELSE 'redrive' END;
    END IF;
    IF second_person IS NULL AND (to_new_epoch OR by_approval IS NOT NULL) THEN
        RETURN 'needs_approval';
    END IF;

    is_clean := to_new_epoch OR held.unanswered = 0 AND held.epoch_first_sent_at IS NULL;
    told := jsonb_strip_nulls(jsonb_build_object('reason', why, 'newEpoch', nullif(to_new_epoch, false),
        'approval', by_approval, 'approvedBy', second_person));
    UPDATE payments p SET
        status = CASE WHEN is_clean THEN 'PENDING' ELSE 'UNKNOWN' END,
        status_reason = 'redriven',
        next_attempt_at = greatest(at, p.due_at),
        asks = CASE WHEN is_clean THEN 0 ELSE least(p.asks + 1, 32767) END,
        -- R12: one send is granted, not a new budget.
        sends = CASE WHEN is_clean THEN least(p.sends, p.max_sends - 1) ELSE p.sends END,
        held_back = 0,
        held_back_since = NULL,
        epoch = p.epoch + to_new_epoch::integer,
        unanswered = CASE WHEN to_new_epoch THEN 0 ELSE p.unanswered END,
        epoch_first_sent_at = CASE WHEN to_new_epoch THEN NULL ELSE p.epoch_first_sent_at END,
        request_hash = CASE WHEN to_new_epoch THEN NULL ELSE p.request_hash END,
        gateway_account = CASE WHEN to_new_epoch THEN NULL ELSE p.gateway_account END,
        renderer = CASE WHEN to_new_epoch THEN NULL ELSE p.renderer END,
        last_moved_at = at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PARKED',
            CASE WHEN is_clean THEN 'PENDING' ELSE 'UNKNOWN' END, 'redriven', whose, p.fence, p.attempt,
            p.epoch + to_new_epoch::integer, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = of_payment
    RETURNING p.* INTO released;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid)
    VALUES (released.id, released.history_seq, 'PARKED', released.status, 'redriven', whose, released.fence,
            released.attempt, released.epoch, at, told::text, released.history_hash, released.last_xid);
    INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
    VALUES (of_shard, released.id, of_day, released.gateway, released.lane, released.due_at,
            released.next_attempt_at, released.attempt);
    DELETE FROM parked h WHERE h.payment_id = of_payment;
    -- As in create.sql: scans begin at this day, and the row lock makes a keeper that moves it on wait.
    UPDATE installation i SET oldest_open_day = least(i.oldest_open_day, of_day)
    WHERE of_day < (now() AT TIME ZONE 'UTC')::date - 1;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'redrive', of_payment::text, why,
            told - 'reason' || jsonb_build_object('became', released.status, 'version', released.history_seq));
    RETURN 'done';
END
$$;

-- As before, but for what reports show.
CREATE OR REPLACE FUNCTION resolve_parked(
    of_day date, of_payment uuid, as_charged boolean, of_reference text, of_amount bigint, of_currency text,
    whose text, why text, evidence jsonb, of_version integer
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    held payments;
    ended payments;
    at timestamptz;
    charged boolean;
    voided_here boolean;
    to_status text;
    told jsonb;
BEGIN
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = of_payment FOR UPDATE;
    at := clock_timestamp();
    SELECT coalesce(bool_or(t.verdict = 'charged'), false),
           coalesce(bool_or(t.verdict = 'voided' AND t.epoch = held.epoch), false)
    INTO charged, voided_here
    FROM attempts t WHERE t.due_day = of_day AND t.payment_id = of_payment;

    IF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF held.status <> 'PARKED' THEN
        RETURN 'not_parked';
    ELSIF NOT lineage_is_released() THEN
        RETURN 'quarantined';
    ELSIF of_version <> held.history_seq THEN
        RETURN 'changed';
    END IF;
    IF as_charged THEN
        IF coalesce(of_reference, '') = '' THEN
            RETURN 'reference_missing';
        ELSIF of_amount IS DISTINCT FROM held.amount_minor OR of_currency IS DISTINCT FROM held.currency THEN
            RETURN 'amount_differs';
        ELSIF held.gateway_ref <> of_reference THEN
            RETURN 'reference_differs';
        ELSIF EXISTS (SELECT 1 FROM gateway_refs g
                      WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment
                        AND g.amount_minor IS NOT NULL) THEN
            -- The gateway said otherwise, and nobody's word makes COMPLETED of that.
            RETURN 'amount_differs';
        END IF;
        -- One charge pays for one payment. Another's insert is waited for, and then seen.
        INSERT INTO gateway_refs (gateway, reference, payment_id) VALUES (held.gateway, of_reference, of_payment)
        ON CONFLICT DO NOTHING;
        IF NOT EXISTS (SELECT 1 FROM gateway_refs g
                       WHERE g.gateway = held.gateway AND g.reference = of_reference AND g.payment_id = of_payment) THEN
            RETURN 'reference_taken';
        END IF;
        to_status := 'COMPLETED';
    ELSE
        IF charged OR held.gateway_ref IS NOT NULL OR charge_is_reported(of_payment) THEN
            RETURN 'charge_on_record';
        ELSIF held.unanswered > 0 AND NOT voided_here THEN
            RETURN 'open_send';
        END IF;
        to_status := CASE WHEN held.cancel_wish_at IS NULL THEN 'FAILED' ELSE 'CANCELLED' END;
    END IF;

    told := jsonb_build_object('reason', why, 'evidence', evidence);
    UPDATE payments p SET
        status = to_status,
        status_reason = CASE to_status WHEN 'FAILED' THEN 'resolved_not_charged'
                                       WHEN 'CANCELLED' THEN 'cancelled_by_client' END,
        unanswered = 0,
        asks = 0,
        gateway_ref = CASE WHEN as_charged THEN of_reference ELSE p.gateway_ref END,
        last_moved_at = at,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, 'PARKED', to_status, 'resolved', whose,
            p.fence, p.attempt, p.epoch, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = of_payment
    RETURNING p.* INTO ended;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid)
    VALUES (ended.id, ended.history_seq, 'PARKED', ended.status, 'resolved', whose, ended.fence, ended.attempt,
            ended.epoch, at, told::text, ended.history_hash, ended.last_xid);
    IF to_status <> 'COMPLETED' THEN
        -- A payment that will never be charged gives its external id back.
        DELETE FROM external_ids x USING payment_details d
        WHERE d.due_day = of_day AND d.id = of_payment AND x.actor_id = ended.actor_id
          AND x.external_id = d.external_id AND x.payment_id = of_payment;
    END IF;
    DELETE FROM parked h WHERE h.payment_id = of_payment;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, CASE WHEN as_charged THEN 'resolve_charged' ELSE 'resolve_not_charged' END, of_payment::text,
            why, jsonb_build_object('became', ended.status, 'version', ended.history_seq, 'evidence', evidence));
    RETURN 'done';
END
$$;
