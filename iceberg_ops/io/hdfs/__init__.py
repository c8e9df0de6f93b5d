"""HDFS through hdfs-native, which needs no Java.

- ``places``: what a location names, and which names HDFS does not have.
- ``cluster``: one name service or mount table: calls with a time limit, errors, retries.
- ``hdfs_file_io``: the FileIO; ``hdfs_input`` and ``hdfs_output`` are its open files.
"""
