"""What runs on executors: reading tasks, writing changes, rewriting groups.

Each function is given JSON and properties, never objects.
"""
