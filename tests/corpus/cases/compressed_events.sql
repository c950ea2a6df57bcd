-- MariaDB's compressed statements and rows, between others too short for it.
-- servers: mariadb1011 mariadb118
-- global: log_bin_compress=1
-- select: id, a, b
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(600) COMMENT 'as long as it takes to have the statement compressed: 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789', b INT);
INSERT INTO t VALUES (1, 'short', 1);
INSERT INTO t VALUES (2, REPEAT('x', 500), 2), (3, REPEAT('y', 500), 3);
UPDATE t SET b = b + 10;
DELETE FROM t WHERE id IN (2);
