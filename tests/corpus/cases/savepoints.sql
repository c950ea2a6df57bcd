-- What is rolled back to a savepoint is not there.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
BEGIN;
INSERT INTO t VALUES (1, 1);
SAVEPOINT one;
INSERT INTO t VALUES (2, 2);
ROLLBACK TO one;
INSERT INTO t VALUES (3, 3);
SAVEPOINT two;
UPDATE t SET a = 4 WHERE id = 3;
COMMIT;
