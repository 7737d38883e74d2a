-- Statements as Paimon-Spark's documentation has them, on tables of a warehouse that is empty at the beginning.

CREATE DATABASE shop;
CREATE DATABASE IF NOT EXISTS shop;
SHOW DATABASES;
USE shop;

-- Tables

CREATE TABLE orders (
    id BIGINT NOT NULL COMMENT 'the key',
    city STRING,
    amount DECIMAL(10, 2),
    day DATE,
    at TIMESTAMP
) USING paimon
COMMENT 'what was ordered'
TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true');

CREATE TABLE IF NOT EXISTS orders (id INT);

CREATE TABLE visits (user_id BIGINT, item STRING, dt STRING, hh STRING)
PARTITIONED BY (dt, hh)
TBLPROPERTIES ('primary-key' = 'dt,hh,user_id', 'bucket' = '1');

CREATE TABLE log (line INT, text STRING, dt STRING) PARTITIONED BY (dt);

SHOW TABLES;
SHOW TABLES IN shop LIKE 'o*';
DESCRIBE orders;
DESC visits;
SHOW COLUMNS FROM log;

-- Writes

INSERT INTO orders VALUES
    (1, 'Rome', 10.50, DATE '2024-01-01', TIMESTAMP '2024-01-01 10:00:00'),
    (2, 'Oslo', 20.00, DATE '2024-01-02', TIMESTAMP '2024-01-02 10:00:00.123456'),
    (3, 'Lima', 30.25, DATE '2024-01-03', NULL),
    (4, NULL, NULL, NULL, NULL);
SELECT * FROM orders;
INSERT INTO orders SELECT 2, 'Bergen', 21, day, at FROM orders WHERE id = 2;
SELECT * FROM orders WHERE id = 2;
INSERT INTO orders (city, id) VALUES ('Kobe', 5);
INSERT INTO orders BY NAME SELECT 'Bonn' AS city, CAST(6 AS BIGINT) AS id, CAST(1.5 AS DECIMAL(10, 2)) AS amount,
    DATE '2024-02-01' AS day, CAST(NULL AS TIMESTAMP) AS at;
SELECT id, city, amount FROM orders ORDER BY id;

INSERT INTO visits VALUES (1, 'a', '2024-01-01', '08'), (2, 'b', '2024-01-01', '09'), (3, 'c', '2024-01-02', '08');
INSERT INTO visits PARTITION (dt = '2024-01-02', hh = '09') VALUES (4, 'd'), (5, 'e');
INSERT INTO visits PARTITION (dt = '2024-01-02', hh) SELECT 6, 'f', '10';
SELECT * FROM visits;
SHOW PARTITIONS visits;
SHOW PARTITIONS visits PARTITION (dt = '2024-01-01');

INSERT INTO log VALUES (1, 'one', 'x'), (2, 'two', 'x'), (3, 'three', 'y'), (3, 'three', 'y');
SELECT dt, count(*), max(text) FROM log GROUP BY dt HAVING count(*) > 1 ORDER BY dt;

-- UPDATE and DELETE

UPDATE orders SET amount = amount * 2, city = upper(city) WHERE id IN (1, 3);
UPDATE orders AS o SET city = concat(o.city, '!') WHERE o.amount > 20 AND o.city LIKE 'B%';
UPDATE orders SET day = DATE '2020-01-01' WHERE id = (SELECT max(id) FROM orders);
SELECT * FROM orders;
DELETE FROM orders WHERE amount IS NULL AND id < 5;
DELETE FROM orders WHERE id IN (SELECT line FROM log WHERE dt = 'y');
SELECT id, city, amount, day FROM orders;
UPDATE log SET text = 'TWO' WHERE line = 2;
DELETE FROM log WHERE line = 3;
SELECT * FROM log;
DELETE FROM visits WHERE dt = '2024-01-02' AND hh = '10';
SELECT count(*) FROM visits;

-- MERGE

CREATE TABLE changes (id BIGINT, city STRING, amount DECIMAL(10, 2), op STRING);
INSERT INTO changes VALUES (1, 'ROMA', 1, 'u'), (2, NULL, NULL, 'd'), (7, 'Cairo', 70, 'i'), (8, 'Quito', 80, 'x');
MERGE INTO orders AS o
USING changes AS c
ON o.id = c.id
WHEN MATCHED AND c.op = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET city = c.city, amount = o.amount + c.amount
WHEN NOT MATCHED AND c.op <> 'x' THEN INSERT (id, city, amount) VALUES (c.id, c.city, c.amount);
SELECT id, city, amount, day FROM orders;

MERGE INTO orders
USING (SELECT id, city, amount, DATE '2024-03-01' AS day, CAST(NULL AS TIMESTAMP) AS at FROM changes WHERE id > 6) AS s
ON orders.id = s.id
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *
WHEN NOT MATCHED BY SOURCE AND orders.id = 5 THEN DELETE
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET city = lower(orders.city);
SELECT * FROM orders;

MERGE INTO log
USING (SELECT 2 AS line, 'zwei' AS text UNION ALL SELECT 9, 'neun') AS s
ON log.line = s.line
WHEN MATCHED THEN UPDATE SET log.text = s.text
WHEN NOT MATCHED THEN INSERT (line, text, dt) VALUES (s.line, s.text, 'z');
SELECT * FROM log;

-- Time travel

ALTER TABLE orders CREATE TAG `monday`;
INSERT INTO orders (id, city) VALUES (100, 'Later');
SELECT id, city FROM orders VERSION AS OF 'monday' WHERE id > 6;
SELECT count(*) FROM orders VERSION AS OF 2;
SELECT count(*) FROM orders FOR SYSTEM_VERSION AS OF 2;
SELECT new.id, new.city, old.city AS before
FROM orders AS new LEFT JOIN orders VERSION AS OF 2 AS old ON new.id = old.id;
SELECT count(*) FROM orders TIMESTAMP AS OF '2100-01-01 00:00:00';
SELECT count(*) FROM orders TIMESTAMP AS OF 4102444800;
CREATE TEMPORARY VIEW big AS SELECT id, amount FROM orders WHERE amount > 20;
SELECT * FROM big;
WITH t AS (SELECT * FROM orders VERSION AS OF 'monday') SELECT count(*) FROM t;

-- Tags

ALTER TABLE orders CREATE TAG `second` AS OF VERSION 2;
ALTER TABLE orders CREATE TAG IF NOT EXISTS `second`;
ALTER TABLE orders CREATE OR REPLACE TAG `third` AS OF VERSION 4;
ALTER TABLE orders REPLACE TAG `third` AS OF VERSION 2;
ALTER TABLE orders RENAME TAG `third` TO `fourth`;
SHOW TAGS orders;
SELECT tag_name, snapshot_id, schema_id, record_count, time_retained FROM `orders$tags`;
ALTER TABLE orders DELETE TAG `fourth`;
ALTER TABLE orders DELETE TAG IF EXISTS `fourth`;
CALL sys.create_tag(table => 'shop.orders', tag => 'fifth', snapshot => 2);
CALL sys.create_tag('shop.orders', 'sixth');
CALL sys.rename_tag(table => 'orders', tag => 'sixth', target_tag => 'seventh');
CALL sys.replace_tag(table => 'orders', tag => 'seventh', snapshot => 4);
CALL sys.delete_tag(table => 'shop.orders', tag => 'fifth,second');
SELECT tag_name, snapshot_id FROM `orders$tags` ORDER BY tag_name;

-- Branches

CALL sys.create_branch(table => 'shop.orders', branch => 'trial', tag => 'monday');
SELECT branch_name FROM `orders$branches`;
SELECT count(*), max(id) FROM `orders$branch_trial`;
INSERT INTO `orders$branch_trial` (id, city) VALUES (200, 'Branch');
DELETE FROM `orders$branch_trial` WHERE id = 6;
SELECT id, city FROM `orders$branch_trial`;
SELECT count(*), max(id) FROM orders;
SELECT count(*) FROM `orders$branch_trial` VERSION AS OF 'monday';
CALL sys.delete_branch(table => 'shop.orders', branch => 'trial');
SELECT count(*) FROM `orders$branches`;

-- Metadata tables

SELECT snapshot_id, schema_id, commit_kind, total_record_count, delta_record_count FROM `orders$snapshots`;
SELECT schema_id, partition_keys, primary_keys, comment FROM `orders$schemas`;
SELECT * FROM `orders$options` WHERE key <> 'owner';
-- (Paimon removes the files of a partition whose rows a DELETE names; here their deletions are written.)
SELECT partition, record_count, file_count FROM `visits$partitions` WHERE partition <> 'dt=2024-01-02/hh=10';
SELECT sum(record_count) > 0, count(DISTINCT bucket) FROM `orders$files`;
SELECT rowkind, line, text, dt FROM `log$audit_log`;
SELECT * FROM `orders$consumers`;
SELECT count(*) > 0 FROM `orders$manifests`;
SELECT bucket, sum(record_count) >= 0 FROM `orders$buckets` GROUP BY bucket;

-- Columns and properties

ALTER TABLE orders ADD COLUMNS (note STRING COMMENT 'free text', pieces INT);
ALTER TABLE orders ADD COLUMN place INT AFTER city;
ALTER TABLE orders RENAME COLUMN note TO remark;
ALTER TABLE orders ALTER COLUMN pieces TYPE BIGINT;
ALTER TABLE orders ALTER COLUMN pieces COMMENT 'how many';
ALTER TABLE orders ALTER COLUMN pieces FIRST;
ALTER TABLE orders ALTER COLUMN day AFTER at;
DESCRIBE orders;
ALTER TABLE orders DROP COLUMNS (place, at);
ALTER TABLE orders DROP COLUMN remark;
UPDATE orders SET pieces = 3 WHERE id = 1;
SELECT * FROM orders;
ALTER TABLE orders SET TBLPROPERTIES ('snapshot.num-retained.max' = '100', 'comment' = 'orders of the shop');
ALTER TABLE orders UNSET TBLPROPERTIES ('snapshot.num-retained.max');
ALTER TABLE orders UNSET TBLPROPERTIES ('comment');
SHOW TBLPROPERTIES orders ('bucket');
ALTER TABLE changes RENAME TO deltas;
SHOW TABLES;

-- Overwrites

INSERT OVERWRITE visits PARTITION (dt = '2024-01-01', hh = '08') VALUES (11, 'k');
SELECT * FROM visits WHERE dt = '2024-01-01';
INSERT OVERWRITE visits PARTITION (dt = '2024-01-01') SELECT 12, 'l', '07';
SELECT * FROM visits WHERE dt = '2024-01-01';
SET spark.sql.sources.partitionOverwriteMode=dynamic;
INSERT OVERWRITE visits VALUES (13, 'm', '2024-01-02', '08'), (14, 'n', '2024-01-03', '01');
SELECT * FROM visits;
INSERT OVERWRITE log VALUES (5, 'five', 'x');
SELECT * FROM log;
SET spark.sql.sources.partitionOverwriteMode=static;
ALTER TABLE visits DROP PARTITION (dt = '2024-01-03', hh = '01');
SELECT * FROM visits;
INSERT OVERWRITE log VALUES (6, 'six', 'q');
SELECT * FROM log;
TRUNCATE TABLE log;
SELECT count(*) FROM log;
TRUNCATE TABLE visits PARTITION (dt = '2024-01-01', hh = '07');
SELECT * FROM visits;

-- Tables of queries

CREATE TABLE cities TBLPROPERTIES ('primary-key' = 'city') AS
SELECT city, count(*) AS n, sum(amount) AS total FROM orders WHERE city IS NOT NULL GROUP BY city;
SELECT * FROM cities;
CREATE TABLE days PARTITIONED BY (dt) AS SELECT item, dt FROM visits;
SELECT * FROM days;
DESCRIBE cities;

-- Upkeep

CALL sys.compact(table => 'shop.orders', compact_strategy => 'full');
CALL sys.compact('orders');
SELECT count(*) FROM orders;
SELECT max(level) FROM `orders$files` WHERE bucket = 0;
CALL sys.rescale(table => 'shop.cities', bucket_num => 2);
SELECT count(DISTINCT bucket) <= 2 FROM `cities$files`;
SELECT * FROM cities;
CALL sys.create_tag(table => 'deltas', tag => 'first');
INSERT INTO deltas VALUES (9, 'x', 1, 'i');
CALL sys.rollback(table => 'deltas', version => 'first');
SELECT count(*) FROM deltas;
INSERT INTO deltas VALUES (10, 'y', 1, 'i');
CALL sys.rollback(table => 'deltas', snapshot => 1);
CALL sys.expire_snapshots(table => 'shop.orders', retain_max => 2, retain_min => 1);
SELECT count(*) FROM `orders$snapshots`;
CALL sys.remove_orphan_files(table => 'shop.orders', older_than => '2020-01-01 00:00:00');
CALL sys.reset_consumer(table => 'orders', consumerId => 'reader', nextSnapshotId => 27);
SELECT * FROM `orders$consumers`;
CALL sys.clear_consumers(table => 'orders', includingConsumers => 'read.*');
SELECT count(*) FROM `orders$consumers`;

-- The end

DROP TABLE deltas;
DROP TABLE IF EXISTS deltas;
DROP VIEW big;
SHOW TABLES;
DROP DATABASE shop CASCADE;
SHOW DATABASES;
