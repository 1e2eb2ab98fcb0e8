-- Why a breaker is open, where people look for it and not in one worker's log alone.

SET lock_timeout = '5s';

-- One of a worker's own texts and an HTTP status, nothing that a gateway wrote. A worker that does not know the column
-- leaves it as it is: what it says of a closed breaker, nobody reads.
ALTER TABLE gateway_pace ADD COLUMN breaker_cause text CHECK (length(breaker_cause) <= 200);
