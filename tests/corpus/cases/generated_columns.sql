-- MariaDB's generated and invisible columns stand in the log like others, virtual ones too.
-- servers: mariadb1011 mariadb118
-- select: id, a, hidden, twice, thrice
CREATE TABLE t (id INT PRIMARY KEY, a INT, hidden INT INVISIBLE DEFAULT 9, twice INT AS (a * 2) VIRTUAL, thrice INT AS (a * 3) STORED, KEY (twice));
INSERT INTO t (id, a) VALUES (1, 1), (2, 2);
UPDATE t SET a = 5, hidden = 8 WHERE id = 1;
