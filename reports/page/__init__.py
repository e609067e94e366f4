"""Web page of a ledger: one directory that opens from disk and needs no server.

Python converts rows to plain data, ``reports.charts`` draws the pictures, and templates put both into HTML. One script
sorts, filters and unfolds the tables. Other scripts switch themes, show or hide series of pictures, and save files.
"""
