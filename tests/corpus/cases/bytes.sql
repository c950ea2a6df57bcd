-- BINARY is padded with zeros, the others are exact.
-- select: id, HEX(a) AS a, HEX(b) AS b, HEX(c) AS c
CREATE TABLE t (id INT PRIMARY KEY, a BINARY(4), b VARBINARY(300), c MEDIUMBLOB);
INSERT INTO t VALUES (1, x'0102', x'0000', REPEAT(x'00ff', 200)), (2, '', '', ''), (3, NULL, NULL, NULL);
