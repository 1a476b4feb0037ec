"""What stops a command."""


class CourseError(Exception):
    """Something that a user of the course can mend; the message says how."""
