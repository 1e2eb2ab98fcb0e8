-- Called by whoever proved that commits were lost (R17): no claim is made from here on.
-- Index: none. One row, always: whether this was the first proof; the first reason stays. A trace of what was
-- lost before a release is no proof, and changes nothing.
--   $1 kind   $2 why   $3 payment, or null   $4 instant of what is missing, or null
SELECT enter_quarantine($1, $2, $3, $4) AS is_new
