-- Events without a checksum.
-- global: binlog_checksum=NONE
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(300));
INSERT INTO t VALUES (1, REPEAT('z', 300)), (2, '');
