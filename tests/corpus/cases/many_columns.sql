-- More columns than one byte counts; most are NULL.
-- select: id, c0, c130, c259
-- columns: 260
INSERT INTO t (id, c0, c130, c259) VALUES (1, 10, NULL, 30), (2, NULL, 20, NULL);
UPDATE t SET c0 = 11, c259 = NULL;
