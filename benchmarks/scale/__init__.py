"""How time and memory of every stage grow with the number of images."""
