"""Stock clients whose scans the server plans, beside the same clients that plan by themselves."""
