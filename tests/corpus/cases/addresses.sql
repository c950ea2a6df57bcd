-- MariaDB's UUIDs and addresses, at both ends of their range: bytes, for all that the log says.
-- servers: mariadb1011 mariadb118
-- select: id, HEX(CAST(a AS BINARY(16))) AS a, HEX(CAST(b AS BINARY(4))) AS b, HEX(CAST(c AS BINARY(16))) AS c
CREATE TABLE t (id INT PRIMARY KEY, a UUID, b INET4, c INET6);
INSERT INTO t VALUES (1, '00000000-0000-0000-0000-000000000000', '0.0.0.0', '::'), (2, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '255.255.255.255', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff');
INSERT INTO t VALUES (3, '123e4567-e89b-12d3-a456-426655440000', '192.0.2.1', '2001:db8::ff00:42:8329'), (4, '018f2f3e-7d5c-7b1a-9c3d-0123456789ab', '10.0.0.255', '::ffff:192.0.2.128'), (5, NULL, NULL, NULL);
UPDATE t SET a = '123e4567-e89b-12d3-a456-426655440001', b = NULL WHERE id = 3;
