"""What every part of the package may use: folders, files, marks, names, the plain data of a chapter.

The modules in here import the standard library and each other, but nothing else of torchkata. Learners' notebooks
never import them: what is meant for notebooks stands beside this package.
"""
