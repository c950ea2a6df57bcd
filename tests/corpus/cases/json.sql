-- Every kind of JSON value; large numbers, doubles, and what only SQL puts into a document.
-- servers: mysql97 mysql80
-- select: id, CAST(j AS CHAR) AS j
CREATE TABLE t (id INT PRIMARY KEY, j JSON);
INSERT INTO t VALUES (1, '{"a": [1, -2, 70000, 5000000000, 18446744073709551615, 1.5, 1e15, 1e-16, -0.0], "": null, "b": {"c": true, "d": false}}');
INSERT INTO t VALUES (2, '"text \\" \\\\ \\n \\u0001 é 😀"'), (3, '[]'), (4, '{}'), (5, 'null'), (6, NULL);
INSERT INTO t VALUES (7, JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 't', CAST('-101:02:03.5' AS TIME(1)), 'm', CAST('2024-02-29 01:02:03.000004' AS DATETIME(6)), 'n', CAST(-12.340 AS DECIMAL(10,3)), 'x', x'00ff10', 'b', b'101'));
UPDATE t SET j = JSON_SET(j, '$.a', 1) WHERE id IN (1, 7);
