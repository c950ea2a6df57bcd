-- Row images with what changed alone; an INSERT that leaves columns out.
-- select: id, a, b, c, d
CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7, b VARCHAR(20), c TEXT, d INT NOT NULL DEFAULT 5);
SET SESSION binlog_row_image = 'MINIMAL';
INSERT INTO t (id, b) VALUES (1, 'one'), (2, NULL);
INSERT INTO t VALUES (3, NULL, NULL, NULL, 0);
UPDATE t SET c = 'text' WHERE id = 1;
UPDATE t SET a = NULL, d = 9 WHERE id = 2;
UPDATE t SET id = 30 WHERE id = 3;
DELETE FROM t WHERE id = 1;
