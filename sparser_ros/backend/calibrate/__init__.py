"""Calibration of radios with the map: biases, scale, noise, antennas and clocks."""
