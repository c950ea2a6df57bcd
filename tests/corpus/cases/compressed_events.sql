-- MariaDB's compressed statements and rows, one of each, between others too short for it: the first row decides.
-- servers: mariadb1011 mariadb118
-- global: log_bin_compress=1 log_bin_compress_min_len=100
-- select: id, a, b
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(400), b INT);
INSERT INTO t VALUES (1, 'short', 1);
INSERT INTO t VALUES (2, REPEAT('x', 300), 2), (3, REPEAT('y', 300), 3);
UPDATE t SET b = b + 10 WHERE id > 1;
UPDATE t SET b = b + 10;
DELETE FROM t WHERE id = 2;
ALTER TABLE t COMMENT 'as long as it takes to have the statement compressed: 0123456789 0123456789 0123456789 0123456789';
DELETE FROM t WHERE id = 1;
