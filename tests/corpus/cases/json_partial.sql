-- Diffs of JSON documents, several of one column and of several columns.
-- servers: mysql97 mysql80
-- select: id, CAST(a AS CHAR) AS a, n, CAST(b AS CHAR) AS b
CREATE TABLE t (id INT PRIMARY KEY, a JSON, n INT, b JSON);
INSERT INTO t VALUES (1, '{"a": 1, "b": {"c": [1, 2, "three"]}, "long": "0123456789012345678901234567890123456789"}', 1, '[1, 2, 3, "0123456789012345678901234567890123456789"]'), (2, '{}', 2, NULL);
SET SESSION binlog_row_value_options = 'PARTIAL_JSON';
UPDATE t SET a = JSON_SET(a, '$.a', 2, '$.b.c[1]', 'two') WHERE id = 1;
UPDATE t SET a = JSON_REMOVE(a, '$.b.c[0]'), b = JSON_REPLACE(b, '$[1]', 22), n = 7 WHERE id = 1;
UPDATE t SET a = JSON_SET(a, '$.a', 3, '$."new key"', JSON_OBJECT('x', 1)) WHERE id = 1;
UPDATE t SET b = JSON_ARRAY_INSERT(b, '$[1]', 'between') WHERE id = 1;
UPDATE t SET n = n + 1;
