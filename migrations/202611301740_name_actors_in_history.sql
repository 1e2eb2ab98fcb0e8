-- Each history row names the actor whose payment it tells of, so that an actor's events are found by an index.
-- Without it they could be found only by reading the history of everybody, or payment by payment.

SET lock_timeout = '5s';

-- Null in rows from before this migration, and where the payment's day is detached: such rows are found by their
-- payment and in the topic of events, not in the actor's own list of events.
ALTER TABLE payment_history ADD COLUMN actor_id uuid;

-- Statements that move payments say it themselves; this is for those that do not, and costs the others nothing.
CREATE FUNCTION name_the_actor() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    SELECT p.actor_id INTO NEW.actor_id
    FROM payments p
    -- The id begins with its due time, 48 bits of milliseconds (domain/ids.rs).
    WHERE p.due_day = (timestamp '1970-01-01' + interval '1 millisecond'
              * ('x' || left(replace(NEW.payment_id::text, '-', ''), 12))::bit(48)::bigint)::date
      AND p.id = NEW.payment_id;
    RETURN NEW;
END
$$;
CREATE TRIGGER name_the_actor BEFORE INSERT ON payment_history
    FOR EACH ROW WHEN (NEW.actor_id IS NULL) EXECUTE FUNCTION name_the_actor();

-- In the order of publication, which is each payment's own order.
CREATE INDEX payment_history_of_actor ON payment_history (actor_id, xid, seq, payment_id);

-- Operators ask the interface which publisher leads.
GRANT SELECT ON publisher_cursor TO punctual_api;
