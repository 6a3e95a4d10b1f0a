"""Clients' commits: what a request asks for, and how it replays on a table or view that moved."""
