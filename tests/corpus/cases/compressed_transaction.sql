-- Transactions compressed with zstd, between others that are not.
-- servers: mysql97 mysql80
-- select: id, a, b
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200), b INT);
INSERT INTO t VALUES (1, 'plain', 1);
SET SESSION binlog_transaction_compression = ON;
INSERT INTO t VALUES (2, REPEAT('x', 200), 2), (3, REPEAT('y', 200), 3);
BEGIN;
UPDATE t SET b = b + 10;
DELETE FROM t WHERE id = 2;
COMMIT;
SET SESSION binlog_transaction_compression = OFF;
INSERT INTO t VALUES (4, 'plain again', 4);
