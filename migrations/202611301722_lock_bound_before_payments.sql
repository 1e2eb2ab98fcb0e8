-- A release of a day that the scans have passed holds two locks: the payment, and the bound of the scans. Whoever
-- releases many in one transaction holds the second one from the first such payment on, so it is the first lock of
-- everybody; taken behind the payment, two releases could wait for each other.

SET lock_timeout = '5s';

ALTER FUNCTION redrive_parked RENAME TO redrive_locked;
CREATE FUNCTION redrive_parked(
    of_day date, of_payment uuid, of_shard smallint, to_new_epoch boolean, retryable text[],
    whose text, why text, of_version integer, by_approval uuid
) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    PERFORM 1 FROM installation i WHERE of_day < (now() AT TIME ZONE 'UTC')::date - 1 FOR NO KEY UPDATE;
    RETURN redrive_locked(of_day, of_payment, of_shard, to_new_epoch, retryable, whose, why, of_version, by_approval);
END
$$;
REVOKE ALL ON FUNCTION redrive_parked FROM PUBLIC;
REVOKE ALL ON FUNCTION redrive_locked FROM punctual_api, punctual_worker;
GRANT EXECUTE ON FUNCTION redrive_parked TO punctual_api, punctual_worker;

-- One person's acts, among everybody's since the first day.
CREATE INDEX operator_acts_by_operator ON operator_acts (operator, id);
-- Nobody asks by payment but for the one release that waits, which has an index of its own.
DROP INDEX approvals_by_payment;
