-- Two-phase commits: one committed, one rolled back, one in one phase.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
XA START 'first', 'branch', 7;
UPDATE t SET a = 10 WHERE id = 1;
XA END 'first', 'branch', 7;
XA PREPARE 'first', 'branch', 7;
XA COMMIT 'first', 'branch', 7;
XA START x'00ff';
UPDATE t SET a = 20 WHERE id = 2;
XA END x'00ff';
XA PREPARE x'00ff';
XA ROLLBACK x'00ff';
XA START 'one';
UPDATE t SET a = 30 WHERE id = 3;
XA END 'one';
XA COMMIT 'one' ONE PHASE;
