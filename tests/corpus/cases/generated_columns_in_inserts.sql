-- From 11.8.9 on MariaDB logs generated columns in inserts only: the same statements are refused.
-- servers: mariadb118
-- select: id, a, hidden, twice, thrice
-- refused: generated columns does not log their values
CREATE TABLE t (id INT PRIMARY KEY, a INT, hidden INT INVISIBLE DEFAULT 9, twice INT AS (a * 2) VIRTUAL, thrice INT AS (a * 3) STORED, KEY (twice));
INSERT INTO t (id, a) VALUES (1, 1), (2, 2);
UPDATE t SET a = 5, hidden = 8 WHERE id = 1;
DELETE FROM t WHERE id = 2;
