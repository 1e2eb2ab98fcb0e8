-- A payment may be executed within a window after it is due; and what is due when can be counted.

SET lock_timeout = '5s';

-- Kept beside the hot columns because lateness counts from the instant that the window chose, which is a
-- function of id, due time and this (domain/window.rs); absent, it takes no room in a row.
ALTER TABLE payments
    ADD COLUMN execute_within_s integer
        CONSTRAINT window_is_at_most_a_day CHECK (execute_within_s BETWEEN 1 AND 86400),
    ADD CONSTRAINT window_ends_by_the_deadline
        CHECK (extract(epoch FROM execute_before - due_at) >= execute_within_s);

-- The late scan's index, with the day at its end: so that a forecast, which names the days that it reads, is
-- counted from the index alone. Within a partition the day is one value: equal instants still share an entry.
CREATE INDEX payments_claimable_by_day ON payments (gateway, next_attempt_at, due_day)
    WHERE status IN ('PENDING', 'UNKNOWN');
DROP INDEX payments_claimable;
ALTER INDEX payments_claimable_by_day RENAME TO payments_claimable;
