-- ENUM and SET, values in another character set, and the invalid value.
-- select: id, CONVERT(a USING utf8mb4) AS a, CONVERT(b USING utf8mb4) AS b
SET SESSION sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, a ENUM('new','grün','') CHARACTER SET latin1, b SET('x','ö','z') CHARACTER SET latin1);
INSERT INTO t VALUES (1, 'grün', 'x,ö,z'), (2, 'no such label', ''), (3, NULL, NULL);
