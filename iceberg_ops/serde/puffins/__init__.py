"""Puffin files and what they hold: deletion vectors and theta sketches (Puffin spec).

footer = read_footer(stream, name)
"""
