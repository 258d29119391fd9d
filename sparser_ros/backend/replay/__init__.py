"""Bags through front-end and back-end at full speed, without ROS: one alone, or a study."""
