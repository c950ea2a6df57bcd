-- A document in the large form, beyond 64 KiB.
-- servers: mysql97 mysql80
-- select: id, SHA2(j, 256) AS j
-- show: sha256
CREATE TABLE t (id INT PRIMARY KEY, j JSON);
INSERT INTO t VALUES (1, JSON_OBJECT('many', CAST(CONCAT('[', REPEAT('12345, "ab", ', 6000), '{"k": 1}]') AS JSON), 'after', 70000));
