#!/usr/bin/env bash
# Names a wheel by the oldest glibc that it runs with, which auditwheel finds (manylinux_2_34 and the
# like), and prints the name. Nothing is added to the wheel: torch brings what else it needs.
#   scripts/tag_wheel.sh haloconv-…-linux_x86_64.whl
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
need_programs auditwheel patchelf
wheel=$(realpath "$1")
folder=$(dirname "$wheel")

auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' \
  -w "$folder/tagged" "$wheel" >"$folder/auditwheel.log" 2>&1 || die "$(cat "$folder/auditwheel.log")"
rm "$wheel"
mv "$folder"/tagged/*.whl "$folder"
rmdir "$folder/tagged"

auditwheel show --json "$folder"/haloconv-*.whl 2>/dev/null | "$HALOCONV_PYTHON" -c '
import json, re, sys
shown = json.load(sys.stdin)
others = [name for name in shown["external_libs"] if not re.match("lib(torch|c10)", name)]
assert not others, f"the wheel needs {others}"
assert "manylinux" in shown["sym_tag"], shown["sym_tag"]
assert "-" + shown["sym_tag"] + ".whl" in shown["wheel"], shown
print(shown["wheel"])'
