"""Who is better, how sure we are, and what it cost."""
