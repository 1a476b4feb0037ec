"""Tools of the course: behind the command, and, for the review page, in a notebook's kernel."""
