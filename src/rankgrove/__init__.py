"""Rankgrove: learning to rank, from a data file to numbers one can trust."""

from rankgrove.data.dataset import Dataset

__version__ = "0.1.0.dev0"

__all__ = ["Dataset"]
