"""Runs in progress, on a local web page."""
