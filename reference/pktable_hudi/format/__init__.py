"""The bytes of Apache Hudi's log files and timelines, read and written. Nothing here touches a store."""
