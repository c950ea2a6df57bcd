-- The server is stopped and started: its file ends with STOP, and the next one begins.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
INSERT INTO t VALUES (1, 1), (2, 2);
RESTART;
UPDATE t SET a = 10 WHERE id = 1;
