-- The statements of the rows are logged in events of their own.
-- servers: mysql97 mysql80
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
SET SESSION binlog_rows_query_log_events = ON;
INSERT /* é */ INTO t VALUES (1, 1);
UPDATE t SET a = 2;
