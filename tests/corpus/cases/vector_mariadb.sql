-- MariaDB's vectors: bytes, for all that the log says.
-- servers: mariadb118
-- select: id, HEX(v) AS v, HEX(w) AS w
CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(4) NOT NULL, w VECTOR(2));
INSERT INTO t VALUES (1, VEC_FromText('[1, -2.5, 0, 3]'), NULL), (2, VEC_FromText('[0.5, 100000, -0.0625, 0.1]'), VEC_FromText('[1, 2]'));
