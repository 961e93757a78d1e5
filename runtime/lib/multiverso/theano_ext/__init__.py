"""Shared variables, and managers of a model's parameters."""
