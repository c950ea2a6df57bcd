-- Rows events of a partitioned table say which partition, also where a row moves to another.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO t VALUES (1, 1), (11, 11);
UPDATE t SET id = 12 WHERE id = 1;
UPDATE t SET a = 5;
