-- Dates and times as they were before MySQL 5.6, whose size the log does not say.
-- servers: mariadb1011 mariadb118
-- global: mysql56_temporal_format=OFF
-- refused: before MySQL 5.6
-- select: id
CREATE TABLE t (id INT PRIMARY KEY, a TIME(3), b DATETIME(6), c TIMESTAMP(2) NULL);
INSERT INTO t VALUES (1, '-12:34:56.789', '2024-02-29 01:02:03.456789', '2024-02-29 01:02:03.45');
