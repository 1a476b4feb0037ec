"""The sandbox: how code that nobody has read is run, and how what it did is reported to the process that gives marks.

A submission's cells and its answers run in a *worker*, a process that owns nothing and reaches nothing. The check cells
run in a *judge*, a process with the teacher's rights that never runs a learner's code. A judge sends its worker
requests ("run this cell", "call `one_hot` with these tensors") and gets back a plain description of what happened.

Who starts whom
===============

    torchkata grade ──► forkserver ──forks──► judge, one for each job        the teacher's rights
          │             (preload.py)           │      ▲                      referee.py, session.py
          │ starts (zygotes.py)         orders │      │ requests, replies
    ══════╪══════════ bubblewrap ══════════════╪══════╪═══════════════════════════════════════════════════
          ▼                                    ▼      │                      nobody's rights, no network,
        zygote ─────────────forks────────► branch     │                      read-only files
        loads torch and the chapter's       │ one     │                      inside/zygote.py
        setup cell, once                    │ for     │
                                            │ each job│
    ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ further namespaces, limits, filter of system calls ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
                                            ▼ forks   │                      inside/worker.py
                                          worker ◄────┘                      RUNS THE LEARNER'S CODE
                                          one for each submission, a new one when it crashes or takes too long

Loading torch takes seconds and forking takes milliseconds; that is why there is a zygote. Confining a worker takes some
of those milliseconds too, so the judge asks for the next worker while the present one works: one always waits, and has
run nothing yet. Zygote and branch never run a learner's code. On a cluster each machine's judge starts a zygote of its
own.

Everything in `inside/` runs below bubblewrap. The rest of this package runs in the main process (`zygotes`,
`bubblewrap`), in the judge (`session`, `replies`, `scenarios`, `usage`, `unlimited`), or on both sides (`wire`,
`messages`, `limits`).

What each process can see
=========================

zygote   The system's libraries, Python, its environment and this package, all read-only; an empty /tmp; a cleared
         environment. Not the course: its solutions hold the hidden tests. No network, and only the processes of the
         sandbox. It drops all capabilities, and where the teacher is root, becomes a user who owns nothing.
branch   The same, with a network of its own in which only its own loopback device exists, so that two submissions that
         are graded at the same time can't talk to each other.
worker   The same, with namespaces of its own for users, mounts, processes and System V IPC. It has a fresh /tmp and
         /dev/shm of limited size, a /proc that shows nothing but itself, a keyring of its own, and no open file but its
         socket to the judge and /dev/null. It can make no further namespaces, and a filter refuses the system calls in
         `inside/syscalls.py`.

`inside/confine.py` does all of this to the process itself, before a learner's code runs, in a way that can't be undone
from inside. A worker that can't be confined doesn't run.

What crosses, and in which form
===============================

main process → zygote   JSON: the setup cell's source and the limits; then one order for each branch, with a socket.
judge → branch          JSON: "fork a worker" with the socket for it, or "end worker 7". The branch answers with the
                        worker's number and a handle of its process, and later with how it ended.
judge → worker          A number, and a request as MessagePack: the source of a cell; the name of an answer with its
                        arguments; the source of a scenario. Never a check cell, an expected value or a reference
                        solution: `scenarios.py` sends the scenario's own functions and refuses to send anything else.
worker → judge          The same number, and a reply as MessagePack: what was returned, raised, printed and warned, the
                        arguments afterwards, gradients, and the operations that were recorded.

Every message says its length first. No pickle crosses the boundary. A socket is handed over as an open file
(SCM_RIGHTS), never by a name that somebody else could connect to.

What is believed
================

Nothing that a worker says is trusted to be well-formed. `wire` checks the length before it sets memory aside,
`messages.decode` refuses layouts, nesting and sizes that `encode` wouldn't make, `replies` checks each field and its
type, and a reply must carry the number of the request. A reply that breaks a rule ends the worker and costs the check.

What a worker says its answer did *is* taken as what the answer did, since the learner's code could always have done
that instead. It earns points only if the check cell, which the worker never sees, finds it right. While a scenario
runs, torch is put back after each call and results are taken as plain tensors (`inside/asking.py`), so an answer that
replaces `torch.equal` or returns a tensor of its own class decides nothing. Where a check asks which operations ran,
torch's profiler counts them a second time, in all threads, below all modes, and in classes and operations of the
learner's own, and Python's audit events tell of other processes (`verdicts/sight.py`, on a rank `verdicts/noting.py`);
and an operation that was asked for must be one that the result comes from, in memory that only torch writes to.

One limit remains: all of this runs in the worker. Code that digs into these very objects, or into the interpreter's
memory, can falsify what is reported of operations. `reaching.py` shows the teacher the lines of a submission that look
like that. A rule about something other than torch's operations (no NumPy, no loop in Python) is checked only as far as
its own check cell does, and its contract says which part is left to the learner (the list of all rules is in
docs/maintainers.md). And a result depends on an operation whatever it was multiplied with afterwards.

SECURITY.md says what of all this is promised to a teacher, and what is not.

These are never asked of a worker: points and verdicts (the judge computes them), how long something took (measured in
the judge; `usage` subtracts the time in which the machine was busy with others), how the worker ended (the branch gets
it from the kernel), and lines of the learner's code in a traceback (kept only if they are lines of what was handed in).

Which limit is held where (the numbers are in `limits.py`)
==========================================================

seconds for an exercise, a cell, a submission     the judge, while it waits for a reply; the branch kills the worker
memory, processes, open files, file size, CPU     the kernel, by limits that the worker sets on itself before it begins
disk, number of files                             the kernel: /tmp and /dev/shm are file systems of a fixed size
memory that processes share                       the kernel: there is none but files in /dev/shm (`inside/syscalls.py`)
size and shape of a message                       the judge, while it reads
memory of all processes of a submission           the judge, a few times a second while it waits (`usage.py`)
time and memory for judging one exercise          the kernel, in the judge (`watchdog.py`): a reply can be slow to judge
a whole submission, whatever happens              the main process (`pool.py`), which then kills the judge

A judge that is ended by such a limit, or by a signal, costs the exercise or own cell that it was at; a new judge marks
the rest, on a machine of a cluster too (`judge.py`). What is not limited on a machine is said by `torchkata doctor` and
in each record (`unlimited.py`). Never limited for each submission is how many open files are on their way in sockets,
which the kernel counts for all workers together.

A worker is the first process of its process namespace, so killing it ends everything that it started. Closing the
judge's socket ends the branch, closing the main process's socket ends the zygote, and bubblewrap dies with its parent.

With `--no-sandbox` the same processes run without bubblewrap, namespaces and the filter. Only limits on resources hold
then, and a submission can do whatever the teacher can.

How to change it
================

- A new kind of request: a method in `inside/worker.py`, one in `session.py`, and a reader in `replies.py` that checks
  every field.
- Something else to forbid: `inside/syscalls.py` for a system call, `inside/confine.py` for the rest.
- Modules in `inside/` import `wire`, `messages`, `limits`, each other, and what runs in a learner's notebook anyway
  (`torchkata.verdicts`). Anything else that they import can be read and patched by a submission.
- tests/tools/grading/sandbox/ tests what this page says, and tests/tools/grading/hostile/ holds submissions that try to
  get around it. Add yours there.
"""
