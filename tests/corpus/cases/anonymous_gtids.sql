-- Transactions without a GTID.
-- servers: mysql80
-- global: enforce_gtid_consistency=ON
-- select: id
SET GLOBAL gtid_mode = ON_PERMISSIVE;
SET GLOBAL gtid_mode = OFF_PERMISSIVE;
CREATE TABLE t (id INT PRIMARY KEY);
INSERT INTO t VALUES (1);
SET GLOBAL gtid_mode = ON_PERMISSIVE;
SET GLOBAL gtid_mode = ON;
