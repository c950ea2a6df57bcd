-- A column is added before the others; another becomes wider.
-- select: id, a, b
CREATE TABLE t (id INT PRIMARY KEY, a SMALLINT);
INSERT INTO t VALUES (1, 1);
ALTER TABLE t ADD COLUMN b VARCHAR(10) FIRST, MODIFY a INT;
INSERT INTO t VALUES ('new', 2, 70000);
UPDATE t SET b = 'old' WHERE id = 1;
