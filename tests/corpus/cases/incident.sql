-- Rows that are in their table, and were too many for the log, which says that it lost them: refused.
-- global: max_binlog_stmt_cache_size=4096 binlog_stmt_cache_size=4096
-- fails: 1705
-- refused: lost events
-- select: COUNT(*) AS id
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200)) ENGINE=MyISAM;
INSERT INTO t VALUES (1, REPEAT('a', 200));
INSERT INTO t SELECT 10 + 10 * a.id + b.id, REPEAT('b', 200) FROM
  (SELECT 1 AS id UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7) AS a,
  (SELECT 1 AS id UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7) AS b;
INSERT INTO t VALUES (2, 'after');
