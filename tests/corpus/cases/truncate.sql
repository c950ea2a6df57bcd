-- TRUNCATE takes all rows without saying which.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
INSERT INTO t VALUES (1, 1), (2, 2);
TRUNCATE TABLE t;
INSERT INTO t VALUES (2, 3);
