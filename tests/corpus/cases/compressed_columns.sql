-- MariaDB's compressed columns.
-- servers: mariadb1011 mariadb118
-- select: id, a, b, HEX(c) AS c
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(600) COMPRESSED, b TEXT COMPRESSED, c BLOB COMPRESSED);
INSERT INTO t VALUES (1, REPEAT('a', 500), REPEAT('é', 500), REPEAT(x'00ff', 400)), (2, 'short', '', x''), (3, NULL, NULL, NULL);
