-- MariaDB's images whose after-image holds what changed, and whose before-image all.
-- servers: mariadb118
-- select: id, a, b, c
CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c TEXT);
SET SESSION binlog_row_image = 'FULL_NODUP';
INSERT INTO t VALUES (1, 1, 'one', 'text'), (2, 2, 'two', NULL);
UPDATE t SET a = 10 WHERE id = 1;
UPDATE t SET c = 'changed', id = 20 WHERE id = 2;
