-- Invisible and generated columns stand in the log like others.
-- servers: mysql97
-- select: id, a, hidden, twice, thrice
CREATE TABLE t (id INT PRIMARY KEY, a INT, hidden INT DEFAULT 9 INVISIBLE, twice INT AS (a * 2) VIRTUAL, thrice INT AS (a * 3) STORED, KEY ((a + 1)));
INSERT INTO t (id, a) VALUES (1, 1), (2, 2);
UPDATE t SET a = 5, hidden = 8 WHERE id = 1;
