"""Grading a class: a learner's code runs in a sandbox, and the author's check cells judge outside of it.

The modules of this folder are the way of a submission through a run. `intake` reads what was handed in, `referee` has
it run and asks the check cells, `grader` and `pool` do that in several processes (`cluster` on several machines),
`batch` and `regrading` decide what is graded, and `desk` hands out the results. `records`, `files` and `chapter` are
plain data that every part uses. The folders are two rooms of their own:

- `sandbox/` runs code that nobody has read. Its docstring draws the processes. What is in `sandbox/inside/` runs on the
  far side of the boundary.
- `handed_out/` writes pages, tables, records and the gradebook.

No import leads back: the folder uses its two rooms, the rooms use `records`, `files` and `chapter`, and `inside/` uses
nothing but the wire. A test holds this.
"""
