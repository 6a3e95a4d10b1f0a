"""Every verb by which a stock client sends a snapshot, each beside each other on one table, on the real server.

`verbs*.py` name the verbs, `shapes.py` says which of them look the same on the wire (a cell), `pairs.py` delivers two
that were planned on one head, `rows.py` says which rows may come of it, `report.py` writes the table for the docs.

    make matrix
"""
