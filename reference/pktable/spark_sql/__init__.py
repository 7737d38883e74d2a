"""The session whose SQL knows the tables of a warehouse: Spark computes, methods of `Table` and `Warehouse` change."""
