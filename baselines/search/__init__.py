"""What all tree searches share."""
