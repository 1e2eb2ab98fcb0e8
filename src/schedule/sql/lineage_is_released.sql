-- Called by cancel before it repeats the answer to a wish, and for health (R17).
-- Index: the installation's only row. One row, always.
SELECT lineage_is_released() AS released
