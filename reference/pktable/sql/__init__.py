"""What statements of SQL are made of, which tables they name, and queries without Spark. Spark is not imported here."""
