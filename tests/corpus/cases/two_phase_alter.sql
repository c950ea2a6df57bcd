-- MariaDB logs one ALTER twice: when it begins and when it ends.
-- servers: mariadb1011 mariadb118
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY);
INSERT INTO t VALUES (1);
SET SESSION binlog_alter_two_phase = 1;
ALTER TABLE t ADD COLUMN a INT;
UPDATE t SET a = 5;
