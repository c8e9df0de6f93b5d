"""What delete files delete: positions, deletion vectors, and rows with equal keys (spec: "Delete Formats").

Each is read once per process where many data files share it; ``key_memory`` bounds what is kept.

Not here: which deletes apply to a file (``scan``), and writing them (``writing``).

    deleted_positions(io, task.deletes, task.data_file.file_path)
"""
