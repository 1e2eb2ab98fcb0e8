-- Called for people: what is missing before the open quarantine may be released.
-- Index: the keys of runs and items. Zero rows: nothing, or there is no quarantine.
SELECT l.lack, l.of_gateway, l.of_day, l.items FROM quarantine_lacks() AS l
