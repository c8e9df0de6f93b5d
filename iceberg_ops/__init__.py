"""The Apache Iceberg table format, and its maintenance, in Python.

Layers, lowest first: ``errors``, ``config`` and ``io``, ``spec``, ``expressions``, ``serde``, ``table``, ``scan`` and
``catalog``, ``data``, ``commit`` and ``planning``, ``actions``, ``cli``. A module imports only from layers below its own, or
from siblings in its own package. Neither Spark nor Airflow is imported anywhere below this name.
"""

__version__ = "0.1.0"
