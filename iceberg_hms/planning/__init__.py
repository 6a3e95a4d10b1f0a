"""Scan planning: which files a scan reads, decided on columns of decoded manifests."""
