#!/usr/bin/env bash
# Builds the wheel into build/wheel, out of build/, unpacks it beside a torch, and uses it as
# strangers to the source tree do: Python, its program, and examples/cpp against its CMake package.
#   scripts/wheel.sh MODEL PHOTOGRAPH     what examples/python wrote
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
model=$(realpath "$1") photograph=$(realpath "$2")
need_modules scikit_build_core
wheel="$PWD/build/wheel"
rm -rf "$wheel"

# As the tests' build is configured, so that nothing is compiled again.
"$HALOCONV_PYTHON" -m pip wheel . --disable-pip-version-check -q --no-deps --no-build-isolation \
  -w "$wheel" --config-settings build-dir=build \
  --config-settings cmake.define.HALOCONV_CUDA="$HALOCONV_CUDA" \
  --config-settings cmake.define.HALOCONV_TESTS=ON \
  --config-settings cmake.define.HALOCONV_WERROR=ON
if may_download || command -v auditwheel >/dev/null; then
  scripts/tag_wheel.sh "$wheel"/haloconv-*.whl
else
  say "not tagged: auditwheel is not on the PATH"
fi
"$HALOCONV_PYTHON" -m pip install --disable-pip-version-check -q --no-deps --no-index \
  --target "$wheel/site" "$wheel"/haloconv-*.whl

! cmake --install build --prefix "$wheel/prefix" 2>&1 | grep -iA 9 warning ||
  die "what the wheel installs warns"

# site/ stands for a site-packages folder: torch, and the CUDA libraries it brings, lie in it.
packages=$("$HALOCONV_PYTHON" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])')
for package in torch nvidia; do
  [[ ! -e $packages/$package ]] || ln -s "$packages/$package" "$wheel/site/$package"
done
unset HALOCONV_LIBRARY LD_LIBRARY_PATH
prefix=$(cd / && PYTHONPATH="$wheel/site" "$HALOCONV_PYTHON" -c '
import haloconv, torch
x, w = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
torch.testing.assert_close(haloconv.conv2d(x, w), torch.nn.functional.conv2d(x, w))
print(haloconv.cmake_prefix_path)')
[[ $prefix == "$wheel/site/haloconv" ]] || die "haloconv.cmake_prefix_path is $prefix"

# The kernels once, and the library for each torch, under the names by which programs load them: a
# wheel has no links.
name=libhaloconv.so.0
[[ $(echo "$prefix"/lib/libhaloconv*) == "$prefix/lib/libhaloconv_kernels.so.0" ]] ||
  die "the wheel has other libraries: $(echo "$prefix"/lib/libhaloconv*)"
minor=$("$HALOCONV_PYTHON" -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
library="$prefix/lib/torch$minor"
[[ $(echo "$library"/libhaloconv*) == "$library/$name" ]] ||
  die "the wheel has other files than torch$minor/$name: $(echo "$library"/libhaloconv*)"
has_entry() {  # file, entry of its dynamic section, value
  readelf -d "$1" | grep -F "($2)" | grep -qF "[$3]" || die "$1 has no $2 $3"
}
has_entry "$library/$name" SONAME "$name"
has_entry "$library/haloconv-rewrite" NEEDED "$name"

"$library/haloconv-rewrite" --help
PYTHONPATH="$wheel/site" "$wheel/site/bin/haloconv-rewrite" --help >/dev/null  # on the PATH
cmake -S examples/cpp -B "$wheel/example" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$prefix;$wheel/site/torch/share/cmake" >/dev/null
cmake --build "$wheel/example" --target denoise
has_entry "$wheel/example/denoise" NEEDED "$name"
"$wheel/example/denoise" "$model" "$photograph"
