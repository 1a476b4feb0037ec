"""Writing where nobody may write, and modules that stand in the way of others."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack


@attack()
def marks_in_the_gradebook(it: HandIn):
    """Writes full marks for itself, and none for others, into the gradebook."""
    it.answer_all(
        """
        import pathlib, sqlite3
        def improve():
            for place in ("@COURSE/gradebook.db", "../../../gradebook.db"):
                if pathlib.Path(place).exists():
                    with sqlite3.connect(place, timeout=1) as book:
                        book.execute("update grade_cells set max_score = 100")
                        book.execute("update grade set auto_score = 0")
        try:
            improve()
        except Exception:
            pass
        """
    )


@attack()
def course_overwritten(it: HandIn):
    """Overwrites other submissions, solutions, releases, settings, graded notebooks, feedback and records."""
    it.answer_all(
        """
        import pathlib
        for place in map(pathlib.Path, ("@COURSE", "../../..")):
            for path in sorted(place.rglob("*")) if (place / "submitted").exists() else []:
                if path.suffix in (".ipynb", ".json", ".html", ".csv", ".txt") or path.name == "nbgrader_config.py":
                    try:
                        path.write_text("@TOKEN")
                    except OSError:
                        pass
        """
    )


@attack()
def course_deleted(it: HandIn):
    """Deletes the course's folders, or puts links in their place."""
    it.answer_one(
        """
        import os, pathlib, shutil
        for name in ("submitted", "autograded", "feedback", "graded", "solutions"):
            shutil.rmtree(f"@COURSE/{name}", ignore_errors=True)
            try:
                os.symlink("/tmp", f"@COURSE/{name}")
            except OSError:
                pass
        """
    )


@attack()
def start_up_files(it: HandIn):
    """Leaves a file that IPython runs at its next start, in its own folder of settings."""
    it.answer_one(
        """
        import os, pathlib
        from IPython.paths import get_ipython_dir
        for place in (get_ipython_dir(), os.environ.get("IPYTHONDIR", "")):
            folder = pathlib.Path(place or ".", "profile_default", "startup")
            try:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "00-@TOKEN.py").write_text("import builtins; builtins.AssertionError = KeyError")
            except OSError:
                pass
        """
    )


@attack(nbgrader_safe=False)
def start_up_of_python(it: HandIn):
    """Leaves files that every Python runs at its next start: .pth, usercustomize, sitecustomize."""
    it.answer_one(
        """
        import pathlib, site, sys
        places = [*site.getsitepackages(), site.getusersitepackages(), sys.prefix, *filter(None, sys.path)]
        for place in places:
            for name in ("@TOKEN.pth", "usercustomize.py", "sitecustomize.py"):
                try:
                    pathlib.Path(place, name).open("x").write("import builtins")
                except OSError:
                    pass
        """
    )


@attack(nbgrader_safe=False)
def package_overwritten(it: HandIn):
    """Overwrites the judging code on the disk, its compiled files, and torch's own."""
    it.answer_one(
        """
        import pathlib, torch, torchkata
        for package in (torchkata, torch):
            for path in list(pathlib.Path(package.__file__).parent.rglob("*.py"))[:500]:
                try:
                    with path.open("a") as file:
                        file.write("\\n# @TOKEN\\n")
                except OSError:
                    pass
        """
    )


@attack(nbgrader_safe=False)
def files_everywhere(it: HandIn):
    """Leaves files in all folders where everybody may write, links out of its own, and System V memory."""
    it.answer_one(
        """
        import ctypes, os, pathlib
        def leave():
            for place in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", "/root", "/home", "/",
                          os.path.expanduser("~"), "/proc/self/cwd", "/proc/1/cwd", "/proc/1/root/tmp", "@COURSE"):
                try:
                    pathlib.Path(place, "@TOKEN").write_text("here")
                except OSError:
                    pass
            try:
                os.symlink("/etc/passwd", "gather_scatter.ipynb")
                os.mkfifo("pipe")
            except OSError:
                pass
            ctypes.CDLL(None).shmget(0x7051, 4096, 0o1666)
        leave()
        """,
        "leave()",
    )


@attack(nbgrader_safe=False)
def mounts_and_roots(it: HandIn):
    """Makes namespaces, mounts, device nodes and set-user-id files, to get out or to stay."""
    it.answer_one(
        """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        def try_all():
            libc.unshare(0x10000000 | 0x20000)
            libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, b"size=4m")
            libc.mount(b"/", b"/tmp", None, 4096 | 16384, None)
            libc.umount2(b"/tmp", 2)
            libc.umount2(b"/proc", 2)
            libc.pivot_root(b"/tmp", b"/tmp")
            for name, call in (("root", lambda: os.chroot("/tmp")), ("user", lambda: os.setuid(0)),
                               ("node", lambda: os.mknod("/tmp/@TOKEN", 0o60666, os.makedev(254, 0))),
                               ("bits", lambda: os.chmod("/usr/bin/python3", 0o4755))):
                try:
                    call()
                except OSError:
                    pass
        """,
        "try_all()",
    )


@attack()
def modules_in_the_folder(it: HandIn):
    """Hands in files beside the notebook that bear the names of modules: torch, torchkata, random, IPython."""
    calm = b"""
class check:
    def __init__(self, *args): pass
    def __enter__(self): return lambda *args: None
    def __exit__(self, *error): return True
def __getattr__(name): return lambda *args, **kwargs: None
"""
    names = ("torch.py", "torch/__init__.py", "torchkata/__init__.py", "torchkata/verdicts.py", "random.py")
    it.files = dict.fromkeys((*names, "sitecustomize.py", "IPython.py", "ipykernel_launcher.py", "json.py"), calm)
    it.unsure.add(it.last.exercise.id)


@attack()
def notebooks_in_the_folder(it: HandIn):
    """Hands in other notebooks, settings and a gradebook beside its own."""
    it.files = {
        "other.ipynb": b"{}",
        "Gather_Scatter.ipynb": b"{}",
        "nbgrader_config.py": b"raise SystemExit",
        "gradebook.db": b"SQLite format 3\0",
        ".ipython/profile_default/startup/00.py": b"raise SystemExit",
        "conftest.py": b"raise SystemExit",
    }


@attack()
def modules_in_the_working_folder(it: HandIn):
    """Writes modules that shadow others into its working folder and to the front of the path, and ends its process."""
    it.own_cell(
        """
import os, pathlib, sys
for place in (".", "/tmp", os.path.expanduser("~")):
    for name in ("torch", "torchkata", "random", "json", "numpy"):
        try:
            pathlib.Path(place, name).mkdir()
            pathlib.Path(place, name, "__init__.py").write_text("raise SystemExit")
        except OSError:
            pass
sys.path[:0] = [".", "/tmp"]
""",
        before=it.rest[0],
    )
    it.answer_one("import os", "os._exit(0)")
