"""The version, where every part can reach it; pyproject.toml reads it from here."""

__version__ = "0.1.0"
