"""Faults at random against an installation with several replicas, and whether Git still tells the truth."""
