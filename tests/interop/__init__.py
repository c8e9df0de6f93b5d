"""Tables shared with Iceberg Java, in both directions. Nothing runs here: ``make jars`` submits this file so that Spark downloads
the jars."""
