-- Keys change in chains, and rows are replaced.
-- select: a, b, id, c
CREATE TABLE t (id INT, a VARCHAR(10), b INT, c TEXT, PRIMARY KEY (id));
INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, NULL), (3, 'c', 3, 'z');
UPDATE t SET id = id + 1 ORDER BY id DESC;
REPLACE INTO t VALUES (4, 'd', 4, 'replaced');
INSERT INTO t VALUES (2, 'e', 5, 'lost') ON DUPLICATE KEY UPDATE b = b + 10;
