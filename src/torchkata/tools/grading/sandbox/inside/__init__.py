"""What runs where a learner's code runs. The other side believes nothing that these modules say: a submission can patch
them. See the docstring of the package above for the whole picture.
"""
