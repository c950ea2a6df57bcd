-- Vectors, one shorter than its column allows.
-- servers: mysql97
-- select: id, VECTOR_TO_STRING(v) AS v
-- show: vector
CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(4));
INSERT INTO t VALUES (1, TO_VECTOR('[1, -2.5, 0, 3]')), (2, TO_VECTOR('[0.5]')), (3, NULL);
