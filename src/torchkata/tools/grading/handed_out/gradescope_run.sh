#!/usr/bin/env bash
# Gradescope runs this for each submission, in a container of its own.
set -uo pipefail
source=/autograder/source
export PATH="/autograder/venv/bin:$PATH" PYTHONPATH="$source/package" PYTHONDONTWRITEBYTECODE=1
cd "$source/class"

# Whether there can be a sandbox is found out before any code of the student's runs, so that this code has no say in it.
options=()
if ! python -c 'from torchkata.tools.grading.sandbox.bubblewrap import try_out; try_out()' 2>/tmp/no_sandbox; then
    echo "No sandbox in this container: $(tail -n 1 /tmp/no_sandbox)"
    options=(--no-sandbox)
fi
exec python -m torchkata grade CHAPTER --one /autograder/submission --json /autograder/results/results.json "${options[@]}"
