-- Called once at connect.
-- One row, always: the migrations make it.
SELECT secret FROM installation
