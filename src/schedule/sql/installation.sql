-- Called once at connect.
-- One row, always: the migrations make it.
SELECT secret, released_lineage = current_lineage() AS released FROM installation
