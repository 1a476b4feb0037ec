"""What runs where a learner's code runs: nothing it says is believed."""
