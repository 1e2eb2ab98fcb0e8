-- Called by the keeper again and again, and before people are told: gives the database's sign of life, or opens the
-- quarantine of one that was restored or promoted (R17).
-- Index: none. One row, always: whether it may claim.
SELECT observe_lineage() AS released
