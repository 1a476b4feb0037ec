"""What a grading run hands out: pages for students, records, tables and nbgrader's gradebook for the teacher.

Nothing here decides on a mark. Other words in these files grade nobody anew (see `grader_digest`).
"""
