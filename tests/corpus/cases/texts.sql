-- Texts in several character sets within one table.
-- select: id, CONVERT(a USING utf8mb4) AS a, CONVERT(b USING utf8mb4) AS b, CONVERT(c USING utf8mb4) AS c, CONVERT(d USING utf8mb4) AS d, e
CREATE TABLE t (id INT PRIMARY KEY, a CHAR(10) CHARACTER SET latin1, b VARCHAR(300) CHARACTER SET sjis, c TEXT CHARACTER SET utf16,
  d VARCHAR(10) CHARACTER SET koi8r, e CHAR(255) CHARACTER SET utf8mb4) ROW_FORMAT=DYNAMIC;
INSERT INTO t VALUES (1, 'tschüß ', '日本語テスト', '😀 é', 'Привет', REPEAT('é', 255)), (2, '', '', '', '', ''), (3, NULL, NULL, NULL, NULL, NULL);
