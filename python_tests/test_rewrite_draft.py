"""The file that haloconv-rewrite writes, before it has its name."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from test_rewrite import PROGRAM, Conv, needs_program, run


class Waiting(Conv):
    """Waits until the first byte of a file is not zero, in ways that torch's passes leave alone.

    The file's name is no constant, it is read in two sizes, since equal calls become one, and the
    loop has a result, without which it would be removed.
    """

    def __init__(self, path: str):
        super().__init__()
        self.path = path

    def forward(self, x):
        size = 1
        while int(torch.from_file(self.path, False, size, dtype=torch.uint8)[0]) == 0:
            size = 3 - size
            x = x.clone()
        return self.conv(x)


def end_waiting(go: Path):
    """Puts a new file in place: one that is written again would be empty in between."""
    go.with_suffix(".new").write_bytes(b"\1\1")
    go.with_suffix(".new").replace(go)


def drafts(program: subprocess.Popen, folder: Path) -> list[Path]:
    """The files without a name, or not with theirs yet, that a program has open in a folder."""
    found = []
    for link in Path(f"/proc/{program.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            name = os.readlink(link)
            if name.startswith(f"{folder}/") and (name.endswith(".part") or "(deleted)" in name):
                found.append(link)
    return found


@contextlib.contextmanager
def checking(folder: Path, **options):
    """A program that waits in --check, and its draft. end_waiting(go) lets it go on."""
    go, files = folder / "go", folder / "files"
    files.mkdir()
    go.write_bytes(b"\0\0")
    torch.jit.script(Waiting(str(go))).save(files / "in.pt")
    (files / "out.pt").touch()
    (files / "out.pt").chmod(0o600)
    command = [PROGRAM, "--check", "1,1,12,12", files / "in.pt", files / "out.pt"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, **options) as p:
        try:
            deadline = time.monotonic() + 300
            while not (found := [d for d in drafts(p, files) if is_model(d)]):
                assert p.poll() is None and time.monotonic() < deadline, "no draft is checked"
                time.sleep(0.05)
            yield p, found[0], go
        finally:
            p.kill()


def is_model(path: Path) -> bool:
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        torch.jit.load(path)
        return True
    return False


@needs_program
def test_the_check_compares_what_was_written(tmp_path):
    other = tmp_path / "other.pt"
    torch.jit.script(Conv()).save(other)
    with checking(tmp_path) as (program, draft, go):
        assert draft.stat().st_mode & 0o777 == 0o600
        draft.write_bytes(other.read_bytes())
        end_waiting(go)
        _, errors = program.communicate(timeout=300)
    assert program.returncode == 1 and "the rewritten model's results differ" in errors, errors
    assert (tmp_path / "files" / "out.pt").stat().st_size == 0


@needs_program
def test_what_was_checked_is_kept(tmp_path):
    with checking(tmp_path) as (program, _, go):
        end_waiting(go)
        program.communicate(timeout=300)
    assert program.returncode == 0
    out = tmp_path / "files" / "out.pt"
    assert is_model(out) and out.stat().st_mode & 0o777 == 0o600


@needs_program
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(tmp_path, kind):
    with checking(tmp_path) as (program, _, _):
        program.send_signal(kind)
        assert program.wait(timeout=60) == -kind
    assert sorted(os.listdir(tmp_path / "files")) == ["in.pt", "out.pt"]
    assert (tmp_path / "files" / "out.pt").stat().st_size == 0


def preload(folder: Path, source: str) -> str:
    """A library in C that takes the place of the system's functions, for LD_PRELOAD."""
    library = folder / "preload.so"
    command = ["gcc", "-x", "c", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, "-", "-ldl"]
    subprocess.run(command, input=source, text=True, check=True)
    return str(library)


# As on a file system that has no files without a name.
ALL_NAMED = r"""
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

int open(const char* name, int flags, ...) {
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return ((__typeof__(&open))dlsym(RTLD_NEXT, "open"))(name, flags, mode);
}
"""


@contextlib.contextmanager
def checking_a_named_draft(folder: Path, kind: signal.Signals, action: signal.Handlers):
    """The same on such a file system, and with what a signal does set."""
    environment = {**os.environ, "LD_PRELOAD": preload(folder, ALL_NAMED)}
    set_action = partial(signal.signal, kind, action)
    with checking(folder, env=environment, preexec_fn=set_action) as (program, _, go):
        (draft,) = (folder / "files").glob("*.part")
        assert draft.name == f"haloconv-{program.pid}-0.part"
        yield program, go


needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
each_signal = pytest.mark.parametrize(
    "kind", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM], ids=lambda kind: kind.name
)


@needs_program
@needs_gcc
@each_signal
def test_no_named_draft_is_left_after_a_signal(tmp_path, kind):
    with checking_a_named_draft(tmp_path, kind, signal.SIG_DFL) as (program, _):
        program.send_signal(kind)
        assert program.wait(timeout=60) == -kind
    assert sorted(os.listdir(tmp_path / "files")) == ["in.pt", "out.pt"]
    assert (tmp_path / "files" / "out.pt").stat().st_size == 0


@needs_program
@needs_gcc
@each_signal
def test_an_ignored_signal_ends_nothing(tmp_path, kind):
    with checking_a_named_draft(tmp_path, kind, signal.SIG_IGN) as (program, go):
        program.send_signal(kind)
        end_waiting(go)
        program.communicate(timeout=300)
    assert program.returncode == 0
    assert sorted(os.listdir(tmp_path / "files")) == ["in.pt", "out.pt"]
    assert is_model(tmp_path / "files" / "out.pt")


# Logs what is done to drafts: the permissions at each write, and the order of the rest.
SPY = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_draft(int file) {
  char link[64], name[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, name, sizeof name - 1) < 0) return 0;
  return strstr(name, ".part") || (strstr(name, getenv("SPY_FOLDER")) && strstr(name, "(deleted)"));
}
static void note(const char* what, int file) {
  struct stat found;
  if (!is_draft(file) || fstat(file, &found) != 0) return;
  FILE* log = fopen(getenv("SPY_LOG"), "a");
  fprintf(log, "%s %o\n", what, found.st_mode & 0777);
  fclose(log);
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
ssize_t write(int file, const void* data, size_t size) {
  note("write", file);
  return REAL(write)(file, data, size);
}
ssize_t writev(int file, const struct iovec* parts, int count) {
  note("write", file);
  return REAL(writev)(file, parts, count);
}
int fsync(int file) {
  note("fsync", file);
  return REAL(fsync)(file);
}
int rename(const char* from, const char* to) {
  FILE* log = fopen(getenv("SPY_LOG"), "a");
  fprintf(log, "rename\n");
  fclose(log);
  return REAL(rename)(from, to);
}
"""


@needs_program
@needs_gcc
def test_a_draft_is_as_private_as_its_target_and_on_the_disk_before_it_is_renamed(tmp_path):
    torch.jit.script(Conv()).save(tmp_path / "in.pt")
    target, log = tmp_path / "out.pt", tmp_path / "log"
    target.touch()
    target.chmod(0o600)
    spy = preload(tmp_path, SPY)
    spied = {"LD_PRELOAD": spy, "SPY_LOG": str(log), "SPY_FOLDER": str(tmp_path)}
    done = run(tmp_path / "in.pt", target, env={**os.environ, **spied})
    assert done.returncode == 0, done
    lines = log.read_text().splitlines()
    assert "write 600" in lines and set(lines) == {"write 600", "fsync 600", "rename"}, lines
    assert lines[-2:] == ["fsync 600", "rename"], lines
