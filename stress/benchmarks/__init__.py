"""Measurements, run by hand: figures depend on the machine, so none of them is a test."""
