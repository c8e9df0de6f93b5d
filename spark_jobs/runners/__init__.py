"""The code that runs on executors: reading tasks, writing changes, rewriting groups.

Each function takes JSON and properties, never objects.
"""
