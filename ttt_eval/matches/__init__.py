"""Matches between policies, their logs and openings, and the statistics of their results."""
