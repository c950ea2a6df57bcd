-- Names that look like something else.
-- select: id, `from`, `a b`, `x.y`, `ü`, `@1`
CREATE TABLE t (`from` INT, `a b` INT, `x.y` INT, id INT PRIMARY KEY, `ü` INT, `@1` INT);
INSERT INTO t VALUES (1, 2, 3, 4, 5, 6);
UPDATE t SET `from` = 10, `@1` = 60;
