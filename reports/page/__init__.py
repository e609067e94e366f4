"""A ledger as a web page: one directory that opens from disk, without any other host.

Python turns rows into plain data, templates turn the data into HTML, and scripts add what a reader does with it:
sorting, filtering, charts with hover, downloads.
"""
