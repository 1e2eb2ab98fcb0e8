-- Why a breaker is open, where people look for it and not in one worker's log alone.

SET lock_timeout = '5s';

-- One of a worker's own texts and an HTTP status, nothing that a gateway wrote. Of a closed breaker nobody reads it. A
-- worker of an older version leaves it as it is: what that one opens has no cause, or an earlier one.
ALTER TABLE gateway_pace ADD COLUMN breaker_cause text CHECK (length(breaker_cause) <= 200);
