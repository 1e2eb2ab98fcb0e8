-- Called when an authentic notice proves that commits were lost (R17): no claim is made from here on.
-- Index: none. One row, always; the first reason stays.
--   $1 why
SELECT quarantine($1)::text AS done
