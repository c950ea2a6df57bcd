-- The servers' default metadata, which has no names: a file alone cannot be read.
-- global: binlog_row_metadata=MINIMAL
-- refused: binlog_row_metadata
-- select: id
CREATE TABLE t (id INT PRIMARY KEY, a INT);
INSERT INTO t VALUES (1, 1);
