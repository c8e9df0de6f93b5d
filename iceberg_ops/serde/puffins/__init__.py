"""Puffin files and their content: deletion vectors and theta sketches (Puffin spec).

footer = read_footer(stream, name)
"""
