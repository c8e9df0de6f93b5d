"""Tables shared with Iceberg Java, both ways. Nothing runs here: ``make jars`` submits this file so that Spark gets the jars."""
