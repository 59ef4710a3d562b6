"""Policies that do not learn."""
