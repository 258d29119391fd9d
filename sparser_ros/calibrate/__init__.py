"""Calibration of radios against a solved map: biases, scale, noise, and how sure they are."""
