-- A line that shows a charge under an earlier key of a payment, of which a send under its present key has no answer, holds
-- the payment: nothing more is sent, and what that send came to stays open until a person says so.

SET lock_timeout = '5s';

-- As before, but for lines of earlier keys.
CREATE OR REPLACE FUNCTION repair_item(
    of_item bigint, power text, whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    item reconciliation_items;
    held payments;
    other payments;
    moved payments;
    at timestamptz;
    of_day date;
    of_external text;
    other_id uuid;
    seen_other uuid;
    -- The charge's, if it is no other payment's.
    charge_name text;
    fits boolean;
    is_of_earlier_key boolean;
    on_record boolean;
    own_name boolean;
    to_status text;
    because text;
    cause_word text;
    second_person text;
    keeps_external boolean := false;
    told jsonb;
BEGIN
    -- The report before the item, as withdraw_report() locks them.
    PERFORM 1 FROM reconciliation_items i JOIN reconciliation_runs r ON r.id = (i.evidence ->> 'run')::uuid
    WHERE i.number = of_item FOR SHARE OF r;
    SELECT i.* INTO item FROM reconciliation_items i WHERE i.number = of_item FOR UPDATE;
    IF item.number IS NULL THEN
        RETURN 'no_such_item';
    ELSIF item.status NOT IN ('open', 'waiting', 'repaired') THEN
        RETURN 'not_open';
    ELSIF item.class NOT IN ('missing_here', 'amount_mismatch', 'currency_mismatch', 'duplicate_charge') THEN
        RETURN 'nothing_to_repair';
    ELSIF item.payment_id IS NULL THEN
        RETURN 'no_such_payment';
    END IF;
    -- A report that was withdrawn, or replaced and not compared again yet, proves nothing; nor is it taken out while
    -- this goes on.
    SELECT has_own_names(r.format) INTO own_name FROM reconciliation_runs r
    WHERE r.id = (item.evidence ->> 'run')::uuid AND r.status IN ('loaded', 'compared') FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'not_open';
    END IF;
    of_day := payment_day(item.payment_id);
    SELECT d.external_id INTO of_external FROM payment_details d WHERE d.due_day = of_day AND d.id = item.payment_id;
    SELECT x.payment_id INTO other_id
    FROM payments p JOIN external_ids x ON x.actor_id = p.actor_id AND x.external_id = of_external
    WHERE p.due_day = of_day AND p.id = item.payment_id AND x.payment_id <> p.id;
    -- Rows in the order of days and ids, as every batch locks them.
    IF (payment_day(other_id), other_id) < (of_day, item.payment_id) THEN
        SELECT p.* INTO other FROM payments p WHERE p.due_day = payment_day(other_id) AND p.id = other_id FOR UPDATE;
    END IF;
    SELECT p.* INTO held FROM payments p WHERE p.due_day = of_day AND p.id = item.payment_id FOR UPDATE;
    IF (payment_day(other_id), other_id) > (of_day, item.payment_id) THEN
        SELECT p.* INTO other FROM payments p WHERE p.due_day = payment_day(other_id) AND p.id = other_id FOR UPDATE;
    END IF;
    at := clock_timestamp();

    -- What it had held, it may complete.
    IF item.status = 'repaired' AND (held.status = 'PARKED' AND held.status_reason = 'charge_found') IS NOT TRUE THEN
        RETURN 'not_open';
    ELSIF held.id IS NULL THEN
        RETURN 'no_such_payment';
    ELSIF of_version <> held.history_seq THEN
        RETURN 'changed';
    ELSIF held.gateway <> item.gateway THEN
        RETURN 'other_gateway';
    ELSIF held.status = 'PROCESSING' THEN
        RETURN 'in_flight';
    END IF;
    charge_name := CASE WHEN own_name AND NOT EXISTS (
                                 SELECT 1 FROM gateway_refs g
                                 WHERE g.gateway = held.gateway AND g.reference = item.reference
                                   AND g.payment_id <> held.id)
                        THEN nullif(item.reference, '') END;
    -- What is charged is not charged once more, under whichever name or none: to hold it needs none.
    IF own_name AND charge_name IS NULL AND held.status <> 'PENDING' THEN
        RETURN CASE WHEN coalesce(item.reference, '') = '' THEN 'reference_missing' ELSE 'reference_taken' END;
    END IF;
    -- What a bank calls its entry is evidence, and never the gateway's name of a charge.
    on_record := held.gateway_ref = item.reference OR EXISTS (
        SELECT 1 FROM gateway_refs g
        WHERE g.gateway = held.gateway AND g.reference = item.reference AND g.payment_id = held.id);
    on_record := coalesce(on_record, false);
    -- One charge, of what was asked for, and of no other name than the one that we know.
    fits := item.class <> 'duplicate_charge' AND NOT EXISTS (
            SELECT 1 FROM reconciliation_items o
            WHERE o.payment_id = held.id AND o.class = 'duplicate_charge' AND o.status IN ('open', 'waiting'))
        AND item.amount_minor = held.amount_minor AND item.currency = held.currency
        AND (NOT own_name OR coalesce(held.gateway_ref, item.reference) = item.reference)
        -- Under a bank's name it is the one that we know.
        AND NOT EXISTS (SELECT 1 FROM gateway_refs g
                        WHERE g.gateway = held.gateway AND g.amount_minor IS NOT NULL
                          AND g.reference = CASE WHEN own_name THEN item.reference ELSE held.gateway_ref END);
    -- R4: a later key was taken because the gateway had said that nothing was charged under this one. What was sent under
    -- the later one has no answer yet, and may be a second charge. An intent succeeds once, and a bank's key has no epoch.
    SELECT l.epoch < held.epoch INTO is_of_earlier_key
    FROM settlement_lines l
    WHERE l.report_day = (item.evidence ->> 'day')::date AND l.run_id = (item.evidence ->> 'run')::uuid
      AND l.number = (item.evidence ->> 'line')::bigint AND l.payment_id = held.id
      AND l.own_name AND held.unanswered > 0 AND held.intent_ref IS NULL;
    is_of_earlier_key := coalesce(is_of_earlier_key, false);
    to_status := CASE
        WHEN held.status = 'PENDING' THEN 'PARKED'
        WHEN held.status = 'UNKNOWN' AND fits AND NOT is_of_earlier_key THEN 'COMPLETED'
        WHEN held.status = 'UNKNOWN' THEN 'PARKED'
        WHEN held.status IN ('PARKED', 'FAILED', 'CANCELLED') AND fits THEN 'COMPLETED'
        ELSE held.status END;
    IF to_status = held.status AND NOT own_name THEN
        -- There is no name to keep.
        RETURN 'nothing_to_repair';
    ELSIF to_status = held.status AND on_record THEN
        RETURN 'on_record';
    ELSIF held.status IN ('FAILED', 'CANCELLED') AND to_status = 'COMPLETED' THEN
        IF power <> 'person' THEN
            RETURN 'needs_person';
        END IF;
        SELECT a.decided_by INTO second_person FROM approvals a
        WHERE a.id = by_approval AND a.kind = 'repair' AND a.payment_id = held.id AND a.status = 'approved'
          AND a.asked_by = whose AND a.decided_by <> whose AND a.request ->> 'item' = of_item::text;
        IF second_person IS NULL THEN
            RETURN 'needs_approval';
        END IF;
    ELSIF power <> 'person' AND held.status = 'PARKED' AND to_status = 'COMPLETED' AND is_of_earlier_key THEN
        RETURN 'needs_person';
    ELSIF power = 'safe' AND (held.status, to_status) IN (('UNKNOWN', 'PARKED'), ('PARKED', 'COMPLETED'))
          -- Asked about on, it could be sent again under the later key.
          AND NOT is_of_earlier_key
          -- Nobody decided that one: it is held because this charge was found before it was claimed.
          AND held.status_reason IS DISTINCT FROM 'charged_before' THEN
        RETURN 'needs_person';
    END IF;

    IF held.status IN ('FAILED', 'CANCELLED') AND to_status = 'COMPLETED' AND of_external IS NOT NULL THEN
        -- It was given back, and may be another's by now.
        IF other.status = 'PROCESSING' THEN
            RETURN 'in_flight';
        END IF;
        IF other.id IS NULL OR other.status IN ('PENDING', 'UNKNOWN', 'PARKED', 'FAILED', 'CANCELLED') THEN
            INSERT INTO external_ids AS x (actor_id, external_id, payment_id)
            VALUES (held.actor_id, of_external, held.id)
            ON CONFLICT (actor_id, external_id) DO UPDATE SET payment_id = x.payment_id
            RETURNING x.payment_id INTO seen_other;
            IF seen_other <> held.id AND seen_other IS DISTINCT FROM other.id THEN
                -- Another took it between the look and the locks.
                RETURN 'changed';
            END IF;
            UPDATE external_ids x SET payment_id = held.id
            WHERE x.actor_id = held.actor_id AND x.external_id = of_external AND x.payment_id <> held.id;
            keeps_external := true;
        END IF;
    END IF;

    told := jsonb_strip_nulls(jsonb_build_object('reason', why,
        'reference', CASE WHEN own_name THEN item.reference END,
        'bankReference', CASE WHEN NOT own_name THEN item.reference END,
        'amountMinor', item.amount_minor, 'currency', item.currency, 'item', item.number, 'class', item.class,
        'evidence', item.evidence, 'approval', CASE WHEN second_person IS NOT NULL THEN by_approval END,
        'approvedBy', second_person,
        'externalIdOf', CASE WHEN of_external IS NOT NULL AND other.id IS NOT NULL AND NOT keeps_external
                             THEN other.id END));
    cause_word := CASE WHEN to_status = held.status THEN 'noted'
                       WHEN held.status IN ('FAILED', 'CANCELLED') THEN 'repaired'
                       ELSE 'reconciled' END;
    because := CASE WHEN to_status = held.status THEN held.status_reason
                    WHEN to_status = 'COMPLETED' THEN NULL
                    WHEN fits OR held.status = 'PENDING' THEN 'charge_found'
                    ELSE 'contract_violation' END;
    -- A charge of another amount, or a second one, is kept by its name, so that people can give it back.
    INSERT INTO gateway_refs (gateway, reference, payment_id, amount_minor, currency)
    SELECT held.gateway, charge_name, held.id,
           CASE WHEN (item.amount_minor, item.currency) <> (held.amount_minor, held.currency) THEN item.amount_minor END,
           CASE WHEN (item.amount_minor, item.currency) <> (held.amount_minor, held.currency) THEN item.currency END
    WHERE charge_name IS NOT NULL
    ON CONFLICT DO NOTHING;
    IF charge_name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM gateway_refs g
                                               WHERE g.gateway = held.gateway AND g.reference = charge_name
                                                 AND g.payment_id = held.id) THEN
        RAISE EXCEPTION 'the charge is another payment''s since a moment ago' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE payments p SET
        status = to_status,
        status_reason = because,
        unanswered = CASE WHEN to_status = 'COMPLETED' THEN 0 ELSE p.unanswered END,
        asks = CASE WHEN to_status = held.status THEN p.asks ELSE 0 END,
        -- Where only a bank's entry showed the charge, a second one is not it.
        gateway_ref = CASE WHEN to_status = 'COMPLETED' AND item.class <> 'duplicate_charge'
                                OR to_status = 'PARKED' AND held.status <> 'PARKED'
                           THEN coalesce(p.gateway_ref, charge_name) ELSE p.gateway_ref END,
        last_moved_at = CASE WHEN to_status = held.status THEN p.last_moved_at ELSE at END,
        history_seq = p.history_seq + 1,
        history_hash = history_hash(p.history_hash, p.id, p.history_seq + 1, held.status, to_status, cause_word, whose,
            p.fence, p.attempt, p.epoch, at, told::text),
        last_xid = greatest(pg_current_xact_id(), p.last_xid)
    WHERE p.due_day = of_day AND p.id = held.id
    RETURNING p.* INTO moved;
    INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                 hash, xid, actor_id)
    VALUES (moved.id, moved.history_seq, held.status, moved.status, cause_word, whose, moved.fence, moved.attempt,
            moved.epoch, at, told::text, moved.history_hash, moved.last_xid, moved.actor_id);
    IF to_status = 'COMPLETED' THEN
        DELETE FROM parked h WHERE h.payment_id = held.id;
    ELSIF to_status = 'PARKED' AND held.status <> 'PARKED' THEN
        PERFORM list_as_parked(moved, at, told::text);
    END IF;
    IF keeps_external AND other.status IN ('PENDING', 'UNKNOWN') THEN
        PERFORM park_without_external_id(other, whose, at, held.id, item.number);
    END IF;
    UPDATE reconciliation_items i SET
        status = CASE WHEN to_status = held.status THEN i.status ELSE 'repaired' END,
        decided_by = CASE WHEN to_status = held.status THEN i.decided_by ELSE whose END,
        decided_at = CASE WHEN to_status = held.status THEN i.decided_at ELSE at END,
        decided_reason = CASE WHEN to_status = held.status THEN i.decided_reason ELSE why END,
        not_repaired = CASE WHEN to_status = held.status THEN 'on_record' END,
        ours = CASE WHEN i.field = 'status' THEN to_status ELSE i.ours END
    WHERE i.number = of_item;
    INSERT INTO operator_acts (at, operator, act, subject, reason, detail)
    VALUES (at, whose, 'repair', held.id::text, why, told - 'reason'
            || jsonb_build_object('became', moved.status, 'version', moved.history_seq));
    RETURN CASE WHEN to_status = held.status THEN 'recorded'
                WHEN to_status = 'COMPLETED' THEN 'completed'
                ELSE 'parked' END
        || CASE WHEN keeps_external AND other.status IN ('PENDING', 'UNKNOWN') THEN '_and_parked_another' ELSE '' END;
END
$$;
