-- What is rolled back to a savepoint stands in MariaDB's log, before ROLLBACK TO, where a table was changed that cannot be
-- rolled back.
-- refused: was rolled back to a savepoint
-- servers: mariadb1011 mariadb118
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
CREATE TABLE loose (id INT PRIMARY KEY) ENGINE=MyISAM;
BEGIN;
INSERT INTO t VALUES (1, 1);
SAVEPOINT one;
INSERT INTO t VALUES (2, 2);
INSERT INTO loose VALUES (2);
UPDATE t SET a = 5;
ROLLBACK TO one;
INSERT INTO t VALUES (3, 3);
COMMIT;
