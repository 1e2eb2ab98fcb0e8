-- Called by the keeper. One row: the oldest day that can hold an open row.
SELECT advance_oldest_open_day() AS day
