#!/usr/bin/env bash
# Gradescope runs this once, as root and with a network, when the autograder is uploaded: Python, torch for the CPU, and
# what torchkata needs. The versions in requirements.txt are those on the machine where this folder was made.
set -euo pipefail
source=/autograder/source
export DEBIAN_FRONTEND=noninteractive

apt-get update -qq
apt-get install -qq -y --no-install-recommends bubblewrap libseccomp2 python3 python3-venv
usable() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
# Ubuntu 22.04 has Python 3.11 beside its own 3.10
usable python3 || apt-get install -qq -y --no-install-recommends python3.11 python3.11-venv
for python in python3 python3.14 python3.13 python3.12 python3.11 none; do
    [[ $python == none ]] && { echo "torchkata needs Python 3.11 or newer. Choose a newer base image." >&2; exit 1; }
    usable "$python" && break
done

"$python" -m venv /autograder/venv
/autograder/venv/bin/python -m pip install --quiet --no-cache-dir \
    --extra-index-url https://download.pytorch.org/whl/cpu -r "$source/requirements.txt"
# the solutions and hidden tests are the grader's alone
chmod -R go-rwx "$source/class"
