"""Web page of a ledger: one directory that opens from disk and needs no server.

Python converts rows to plain data, templates convert the data to HTML, and scripts add the interaction: sorting,
filtering, charts with hover, downloads.
"""
