-- What a statement's result depends on, in events before it: refused, with the statement.
-- refused: a session logged the text of a statement
-- select: id
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a DOUBLE, b VARCHAR(20));
SET SESSION binlog_format = 'STATEMENT';
SET @said = 'é';
INSERT INTO t (a, b) VALUES (RAND(), @said);
