"""The explorer: a page that shows what everything is worth, served on this machine alone."""
