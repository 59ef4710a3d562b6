"""The environments: single, vector and AEC share one step, its observations and its rendering."""
