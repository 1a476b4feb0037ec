"""What students handed in elsewhere comes into the class's submitted/STUDENT/CHAPTER/: from their repositories, or from
the archive that an LMS gives.

`collect` is the way in. `repositories` and `archives` read the two kinds of source, `students` says whose a source is,
and `taking` puts a notebook into its place without losing what was there.
"""
