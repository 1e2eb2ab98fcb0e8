-- Called by cancel and create before they repeat an answer that they only read: a write whose COMMIT,
-- once answered, proves that everything read before it is durable (R3). A message in the write-ahead
-- log touches no row and needs no lock; an xid alone would not make COMMIT wait for the disk.
-- Index: none. One row, always.
SELECT pg_logical_emit_message(true, 'punctual', 'acknowledge')::text AS at
