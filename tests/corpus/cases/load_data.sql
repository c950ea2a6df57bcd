-- LOAD DATA: its rows stand in the log like those of an INSERT.
-- select: id, a
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20));
SELECT 1, 'it''s "one"' UNION ALL SELECT 2, NULL UNION ALL SELECT 3, 'grün,\t\\ rot\n' INTO OUTFILE './load_data.txt' CHARACTER SET utf8mb4;
LOAD DATA INFILE './load_data.txt' INTO TABLE t CHARACTER SET utf8mb4 (id, a);
LOAD DATA INFILE './load_data.txt' REPLACE INTO TABLE t CHARACTER SET utf8mb4 (id, a) SET a = CONCAT(a, '!');
