#!/usr/bin/env bash
# Sets up what the build needs. The other scripts source this file, for these variables too:
#   HALOCONV_PYTHON  the Python that has torch; set it beforehand to use one that is already there,
#                    with CMake, ninja and the rest: nothing is then downloaded or installed, and
#                    what is missing is named
#   HALOCONV_CUDA    ON or OFF: whether the CUDA half is built; OFF beforehand to leave it out
#   CUDACXX          the CUDA compiler, where HALOCONV_CUDA is ON
# Without a Python of the user's own, missing Debian or Ubuntu packages are installed if the user is
# root, and named otherwise.
set -euo pipefail

haloconv_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$haloconv_root/.venv"

say() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Whether HALOCONV_PYTHON is not the user's own. make_venv notes what it made, for scripts that are
# called from a script too.
may_download() { [[ ${HALOCONV_PYTHON:-} == "${HALOCONV_VENV_PYTHON:-}" ]]; }

need_packages() {  # Debian or Ubuntu packages
  if may_download && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing $*"
    apt-get update -qq >&2 || true  # old lists may do
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2 ||
      die "could not install: $*"
  else
    die "missing; please run: sudo apt-get install $*"
  fi
}

need_modules() {  # Python modules
  local name missing=()
  for name in "$@"; do
    "$HALOCONV_PYTHON" -c "import $name" 2>/dev/null || missing+=("$name")
  done
  ((${#missing[@]} == 0)) || die "$HALOCONV_PYTHON cannot import: ${missing[*]}"
}

need_programs() {
  local name missing=()
  for name in "$@"; do
    command -v "$name" >/dev/null || missing+=("$name")
  done
  ((${#missing[@]} == 0)) || die "not on the PATH: ${missing[*]}"
}

has_gpu() { "$HALOCONV_PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; }

# Arguments of pytest: where this Python has pytest-xdist, tests run in several processes, each file's
# in one. With a GPU they run one after another, for some look at its memory and time kernels.
pytest_processes() {  # Python
  if "$1" -c 'import xdist' 2>/dev/null && ! has_gpu; then
    printf "%s " -n $(($(nproc) < 4 ? $(nproc) : 4)) --dist loadfile
  fi
}

# Installs a requirements file into the virtual environment, which keeps a copy of what it has.
install() {
  local installed
  installed="$venv/$(basename "$1")"
  cmp -s "$1" "$installed" && return
  say "installing $(basename "$1") into .venv"
  # Python compiles what is imported: of the thousands of modules, few are.
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile -q -r "$1" || return
  cp "$1" "$installed"
}

make_venv() {
  local missing=()
  command -v python3 >/dev/null || missing+=(python3)
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  command -v g++ >/dev/null || missing+=(g++)
  command -v git >/dev/null || missing+=(git)
  ((${#missing[@]} == 0)) || need_packages "${missing[@]}"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "Python 3.10 or newer is needed, but python3 is $(python3 -V)"

  # What a link leads to is another checkout's.
  [[ ! -L $venv ]] || die "$venv is a link; remove it, or set HALOCONV_PYTHON"
  # Scripts in a virtual environment hold its path: one that was moved is made anew.
  { grep -qF "$venv" "$venv/bin/activate" && "$venv/bin/python" -c ''; } 2>/dev/null ||
    python3 -m venv --clear "$venv"
  install "$haloconv_root/scripts/requirements.txt" || die "pip could not install what is needed"
  export PATH="$venv/bin:$PATH"
  HALOCONV_PYTHON="$venv/bin/python" HALOCONV_VENV_PYTHON="$venv/bin/python"
  export HALOCONV_VENV_PYTHON
}

# The major version of the CUDA that torch was built with; empty for a torch without CUDA.
torch_cuda_major() {
  "$HALOCONV_PYTHON" - <<'END'
import importlib.util, runpy
(torch,) = importlib.util.find_spec("torch").submodule_search_locations
print((runpy.run_path(torch + "/version.py")["cuda"] or "").partition(".")[0])
END
}

# Whether it is a CUDA compiler that can build the kernels, of 12.8 or newer.
is_nvcc() {  # program, [what its version has to begin with]
  [[ -x $(command -v "${1:-none}") ]] || return
  local release
  release=$("$1" --version | sed -n 's/.* release \([0-9.]*\),.*/\1/p')
  [[ $release == "${2:-}"* ]] && printf '%s\n' 12.8 "$release" | sort -CV
}

# Where there is no nvcc, PyPI has that of CUDA 13, for a torch of CUDA 12 too: the kernels bring a CUDA
# runtime of their own. Of CUDA 12 it has the parts alone.
install_nvcc() {
  may_download || return
  install "$haloconv_root/scripts/requirements-nvcc.txt" || return
  local toolkit
  toolkit=$("$HALOCONV_PYTHON" -c 'import nvidia.cu13 as m; print(list(m.__path__)[0])') || return
  # The wheels name libraries as programs load them; a linker looks for lib64/libcudart.so.
  ln -sfn lib "$toolkit/lib64"
  ln -sf libcudart.so.13 "$toolkit/lib/libcudart.so"
  CUDACXX="$toolkit/bin/nvcc"
  is_nvcc "$CUDACXX"
}

# One of torch's major version before others, for then any driver that torch runs with does for the kernels.
find_nvcc() {
  local major candidate
  for major in "$cuda_major." ""; do
    for candidate in "${CUDACXX:-}" nvcc "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
      if is_nvcc "$candidate" "$major"; then
        CUDACXX=$(command -v "$candidate")
        return
      fi
    done
  done
  install_nvcc
}

if [[ -z ${HALOCONV_PYTHON:-} ]]; then
  make_venv
else
  HALOCONV_PYTHON=$(command -v "$HALOCONV_PYTHON") || die "HALOCONV_PYTHON: no such program"
  need_programs g++ cmake ninja
  need_modules torch
fi

if [[ ${HALOCONV_CUDA:=ON} == ON ]]; then
  cuda_major=$(torch_cuda_major)
  if [[ -z $cuda_major ]]; then
    say "this torch has no CUDA: building without the CUDA half"
    HALOCONV_CUDA=OFF
  elif find_nvcc; then
    export CUDACXX
  else
    say "no nvcc of CUDA 12.8 or newer found or installed: building without the CUDA half"
    HALOCONV_CUDA=OFF
  fi
fi
export HALOCONV_PYTHON HALOCONV_CUDA
