-- LOAD DATA whose file is logged instead of its rows: refused.
-- refused: a session logged the text of a statement
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20));
SELECT 1, 'one' INTO OUTFILE './statement_load.txt';
SET SESSION binlog_format = 'STATEMENT';
LOAD DATA INFILE './statement_load.txt' INTO TABLE t (id, a);
