-- One statement changes two tables, a trigger a third.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a INT);
CREATE TABLE other (id INT PRIMARY KEY, a INT);
CREATE TABLE audit (id INT PRIMARY KEY AUTO_INCREMENT, said VARCHAR(20));
CREATE TRIGGER told AFTER UPDATE ON t FOR EACH ROW INSERT INTO audit (said) VALUES (NEW.a);
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT INTO other VALUES (1, 1), (2, 2);
UPDATE t, other SET t.a = t.a + 10, other.a = other.a + 20 WHERE t.id = other.id;
DELETE t, other FROM t JOIN other USING (id) WHERE t.id = 2;
