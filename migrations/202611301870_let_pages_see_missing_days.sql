-- The pages for people say what is wrong with an installation, and a day without partitions is part of that.

SET lock_timeout = '5s';

-- It reads the catalogue and changes nothing.
GRANT EXECUTE ON FUNCTION missing_days TO punctual_api;
