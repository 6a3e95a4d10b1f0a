"""What the footers of data files say: columns, bounds, metrics, partition values."""
