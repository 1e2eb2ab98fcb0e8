-- Called by claim and claim_late, in their transaction and only while there are charges of lost payments, for what they
-- did not win, once per due day (R18). All of it is the function's (its migration says what it does).
-- Index: the partition's primary key, and lost_charges_by_intent. One row, always: how many were parked.
--   $1 due day   $2 payment ids   $3 by
SELECT park_charged_before($1, $2, $3) AS parked
