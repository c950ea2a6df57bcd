-- Rows events of MySQL with the header of version 1.
-- servers: mysql80
-- global: log_bin_use_v1_row_events=1
-- select: id, a, b
CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10));
INSERT INTO t VALUES (1, 1, 'one'), (2, NULL, NULL);
UPDATE t SET a = 5 WHERE id = 1;
DELETE FROM t WHERE id = 2;
