"""The rows that delete files delete: by position, deletion vector, or equal keys (spec: "Delete Formats").

Each delete file is read once per process if many data files share it; ``key_memory`` limits the cached keys.

Elsewhere: which deletes apply to a file (``scan``), and writing them (``writing``).

    deleted_positions(io, task.deletes, task.data_file.file_path)
"""
