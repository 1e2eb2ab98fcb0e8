-- Called by compare_day, again and again: the next id at $4 or behind it that a report of the day names, or that its
-- history tells of. Whoever asks goes on behind the last id of that one's due day, so that a day of a million
-- payments costs a probe for each due day among them.
-- Index: settlement_lines_by_payment, and the primary key of payment_history. One row, always; null: none is left.
--   $1 the day   $2 its begin   $3 its end   $4 from this id
SELECT least(
    (SELECT l.payment_id FROM settlement_lines l WHERE l.report_day = $1 AND l.payment_id >= $4
     ORDER BY l.payment_id LIMIT 1),
    (SELECT h.payment_id FROM payment_history h WHERE h.at >= $2 AND h.at < $3 AND h.payment_id >= $4
     ORDER BY h.payment_id LIMIT 1)) AS id
