"""Regression: ridge in closed form, dual ascent for the other losses."""
