"""What is there before the first test stays out of the garbage collector's way: checks on leaks collect everything, and
each time would go through all tests that have been collected."""

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
