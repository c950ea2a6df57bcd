-- MariaDB's GTIDs of several domains and servers, a sequence, and events that replicas may skip.
-- servers: mariadb1011 mariadb118
-- select: id
CREATE TABLE t (id INT PRIMARY KEY);
INSERT INTO t VALUES (1);
SET SESSION gtid_domain_id = 3, server_id = 9;
INSERT INTO t VALUES (2);
SET SESSION gtid_domain_id = 0, server_id = 1;
SET SESSION skip_replication = 1;
INSERT INTO t VALUES (3);
SET SESSION skip_replication = 0;
CREATE SEQUENCE counter;
SELECT NEXTVAL(counter);
