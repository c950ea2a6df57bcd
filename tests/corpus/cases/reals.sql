-- FLOAT and DOUBLE at the ends of their range, and numbers that no binary fraction is.
-- select: id, a + 0e0 AS a, b + 0e0 AS b
CREATE TABLE t (id INT PRIMARY KEY, a FLOAT, b DOUBLE);
INSERT INTO t VALUES (1, 0.1, 0.1), (2, -3.402823466e38, -1.7976931348623157e308), (3, 1.175494351e-38, 2.2250738585072014e-308), (4, 16777217, 9007199254740993), (5, 1e10, 1e22), (6, NULL, NULL);
UPDATE t SET a = a / 3, b = b / 3;
