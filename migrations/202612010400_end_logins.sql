-- Logins to the dashboard that somebody ended, until they would have ended by themselves: a copy of such a cookie opens
-- nothing any more.

SET lock_timeout = '5s';

CREATE TABLE ended_logins (
    -- A number that only the sealed cookie has besides; nothing can be opened with it.
    login uuid PRIMARY KEY,
    until timestamptz NOT NULL
);

GRANT SELECT, INSERT, DELETE ON ended_logins TO punctual_api;
