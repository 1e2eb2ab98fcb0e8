-- Called once at connect: how many sessions the server has for all processes together.
-- One row, always.
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       AS connections
