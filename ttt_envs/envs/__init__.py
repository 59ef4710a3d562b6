"""The environments: single, vector and AEC share one step, its observations and its rendering."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
