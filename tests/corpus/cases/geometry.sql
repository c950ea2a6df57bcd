-- Geometries: the SRID in four bytes, then WKB.
-- select: id, HEX(p) AS p, HEX(g) AS g
CREATE TABLE t (id INT PRIMARY KEY, p POINT, g GEOMETRY);
INSERT INTO t VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))', 3857)), (2, NULL, NULL);
