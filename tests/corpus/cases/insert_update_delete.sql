-- Rows come, change and go; one transaction changes two of them.
-- select: id, name, price
CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2));
INSERT INTO t VALUES (1, 'one', 1.10), (2, NULL, NULL), (3, '', -3.30);
UPDATE t SET name = 'two', price = 0 WHERE id = 2;
BEGIN;
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 'again', 99999999.99);
COMMIT;
