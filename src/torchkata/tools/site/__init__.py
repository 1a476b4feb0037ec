"""The website: the built notebooks, the facts and the texts for teachers and authors as pages. See building.py."""
