"""A bag through front-end and back-end at full speed, without ROS."""
