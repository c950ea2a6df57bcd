"""Changes of all kinds, to tables of several schemas, over four files of a log."""

CREATE = [
    """CREATE TABLE kinds (
        id INT PRIMARY KEY, small TINYINT, big BIGINT UNSIGNED, price DECIMAL(12,3),
        name VARCHAR(60) NOT NULL, note TEXT, day DATE, at DATETIME(6), seen TIMESTAMP(3) NULL,
        state ENUM('new','grün','done'), tags SET('a','b','c'), raw BLOB, ratio DOUBLE)""",
    "CREATE TABLE visits (page VARCHAR(20), hits INT)",
    "CREATE TABLE pairs (a INT, b VARCHAR(10), c INT, PRIMARY KEY (b, a))",
    "CREATE TABLE parents (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40))",
    """CREATE TRIGGER logs AFTER INSERT ON pairs FOR EACH ROW
        INSERT INTO audit (what) VALUES (CONCAT(NEW.b, NEW.a))""",
]
KINDS = [
    """(1, -128, 18446744073709551615, '-123456789.125', 'plain', NULL, '2024-02-29',
    '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', 'grün', 'a,c', x'00ff', 0.1)""",
    """(2, 127, 0, '0.001', 'é日本😀', REPEAT('long ', 3000), '1000-01-01', '1000-01-01',
    '1970-01-01 00:00:01', 'new', '', '', -1.5e300)""",
    "(3, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
]
CHANGES = [
    f"INSERT INTO kinds VALUES {', '.join(KINDS)}",
    "INSERT INTO visits VALUES ('a', 1), ('a', 1), ('b', NULL), (NULL, NULL)",
    "FLUSH BINARY LOGS",
    "INSERT INTO pairs VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', NULL)",
    "INSERT INTO parents SELECT id, name FROM kinds",
    # Several tables in one transaction, and in one statement.
    "BEGIN",
    "UPDATE kinds SET small = 5, note = 'changed' WHERE id = 1",
    "DELETE FROM visits WHERE page = 'a' LIMIT 1",
    "INSERT INTO pairs VALUES (9, 'z', 9)",
    """UPDATE kinds, parents SET kinds.name = 'both', parents.name = 'both'
    WHERE kinds.id = parents.id AND kinds.id < 3""",
    "COMMIT",
    # Keys that move, and one row on another's previous key.
    "UPDATE pairs SET a = a + 1 WHERE b = 'x' ORDER BY a DESC",
    "UPDATE kinds SET id = id + 10 ORDER BY id DESC",
    "INSERT INTO kinds VALUES (1, 1, 1, 1, 'again', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)",
    "FLUSH BINARY LOGS",
    "REPLACE INTO parents VALUES (1, 'replaced'), (7, 'new')",
    "INSERT INTO parents VALUES (1, 'x'), (8, 'y') ON DUPLICATE KEY UPDATE name = 'updated'",
    "REPLACE INTO pairs VALUES (9, 'z', 10)",
    # What was rolled back is not there.
    "BEGIN",
    "INSERT INTO parents VALUES (50, 'rolled back')",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO parents VALUES (60, 'kept')",
    "SAVEPOINT s",
    "INSERT INTO parents VALUES (61, 'rolled back')",
    "ROLLBACK TO s",
    "INSERT INTO parents VALUES (62, 'kept')",
    "COMMIT",
    "DELETE FROM kinds WHERE id = 13",
    "UPDATE visits SET hits = 2",
    # Tables as a whole.
    "CREATE TABLE copied (PRIMARY KEY (id)) AS SELECT id, name FROM parents",
    "CREATE TABLE short (id INT PRIMARY KEY)",
    "INSERT INTO short VALUES (1), (2)",
    "/*!50000 TRUNCATE */ TABLE short",
    "INSERT INTO short VALUES (3)",
    "FLUSH BINARY LOGS",
    "CREATE TABLE dropped (id INT PRIMARY KEY)",
    "INSERT INTO dropped VALUES (1)",
    "DROP TABLE dropped",
    "ALTER TABLE short ADD extra VARCHAR(5)",
    "DELETE FROM short",
    "INSERT INTO short VALUES (4, 'four')",
]
STATEMENT_TYPES = [
    *["CREATE TABLE"] * 7,
    "TRUNCATE TABLE",
    "CREATE TABLE",
    "DROP TABLE",
    "ALTER TABLE",
]
