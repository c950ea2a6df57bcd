-- GTIDs with tags.
-- servers: mysql97
-- select: id
CREATE TABLE t (id INT PRIMARY KEY);
SET SESSION gtid_next = 'AUTOMATIC:nightly_load';
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2);
SET SESSION gtid_next = 'AUTOMATIC';
INSERT INTO t VALUES (3);
