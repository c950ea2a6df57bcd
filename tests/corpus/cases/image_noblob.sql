-- Row images without the BLOBs that did not change.
-- select: id, a, b, c
CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c TEXT);
SET SESSION binlog_row_image = 'NOBLOB';
INSERT INTO t VALUES (1, 1, 'one', 'text'), (2, 2, 'two', NULL);
UPDATE t SET a = 10 WHERE id = 1;
UPDATE t SET c = 'changed' WHERE id = 2;
UPDATE t SET id = 11 WHERE id = 1;
