"""The tables of a warehouse in the catalogs of a classic Spark session, so that plain ``spark.sql`` sees them.

`register` puts a `Catalog` among the catalogs of a session. Spark asks it by callbacks of py4j (`machine`). What is
read becomes Spark's own plan of `Table.read` (`reading`), what is inserted goes to `Table.put` (`writing`), and DDL to
the methods that the SQL of a session uses (`catalog`, `changes`). All else is refused by a sentence that says so.

Clauses: WH-37 to WH-42.
"""
