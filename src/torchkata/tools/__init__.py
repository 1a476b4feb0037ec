"""Tools of the course: never imported by its notebooks."""
