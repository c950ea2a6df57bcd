-- A session that logs its statement instead of rows: refused, with the statement.
-- refused: a session logged the text of a statement
-- select: id
CREATE TABLE t (id INT PRIMARY KEY);
SET SESSION binlog_format = 'STATEMENT';
INSERT INTO t VALUES (1);
