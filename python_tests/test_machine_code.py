"""The kernels' machine code, read with the disassembler that Triton brings.

A library built with HALOCONV_CUDA_FAST_COMPILE has all kernels, but only a sample of them as users
have them. Of instructions the tests then read those of the sample.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

import haloconv
from operand_registers import overwritten_operands
from support import kernels_library

ROOT = Path(__file__).resolve().parents[1]


def run(*command, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tool(name: str) -> Path:
    triton = importlib.util.find_spec("triton")
    path = triton and Path(triton.origin).parent / "backends/nvidia/bin" / name
    if not path or not path.exists():
        pytest.skip(f"needs {name}, which comes with Triton")
    return path


@cache
def folder() -> tempfile.TemporaryDirectory:
    """Of the machine code in the library: a file for each source and architecture."""
    if not haloconv.has_cuda:
        pytest.skip("the library was built without CUDA")
    extracted = tempfile.TemporaryDirectory()
    run(tool("cuobjdump"), "-xelf", "all", kernels_library(), cwd=extracted.name)
    return extracted


def names_in(path: Path) -> set[str]:
    """The mangled names of the file's kernels, each of which has a section for its arguments."""
    sections = re.findall(rb"\0\.nv\.constant0\.(\w+)", path.read_bytes())
    return {name.decode() for name in sections}


@cache
def functions(path: Path) -> dict[str, list[str]]:
    """The instructions of each kernel in the file, and its labels, by its mangled name."""
    found, lines = {}, []
    # Only the code, and no analysis of where its branches go, which takes a sixth of the time.
    for line in run(tool("nvdisasm"), "-c", "--no-dataflow", path).splitlines():
        if name := re.match(r"\.text\.(\w+):", line):
            lines = found.setdefault(name.group(1), [])
        elif label := re.match(r"\.L_x_\d+", line):
            lines.append(label.group())
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            lines.append(instruction.group(1))
    return found


def files(architecture: str) -> list[Path]:
    """Hopper's own instructions are of sm_90 to CUDA 12.8's tool, of sm_90a to that of 13.1."""
    return sorted(Path(folder().name).glob(f"*.{architecture}*.cubin"))


def names(pattern: str, architecture: str = "sm_90") -> set[str]:
    """The mangled names that match, of all kernels."""
    found = set().union(*map(names_in, files(architecture)))
    return {name for name in found if re.search(pattern, name)}


def is_optimised(path: Path) -> bool:
    return b"-Ofc max" not in path.read_bytes()  # a note of the assembler's options


def named(pattern: str, architecture: str = "sm_90") -> dict[str, list[str]]:
    """The instructions of the kernels so named, where they are optimised.

    Files that have none are left alone: a megabyte takes more than a second to disassemble.
    """
    found = {}
    for path in files(architecture):
        wanted = {name for name in names_in(path) if re.search(pattern, name)}
        if wanted and is_optimised(path):
            found |= {name: functions(path)[name] for name in wanted}
    assert found, pattern
    return found


FAMILIES = ["4halo11halo", "5wgrad12wgrad", "12few_channels19few_channels"]
FAMILIES += ["10row_strips17row_strips", "8unpacked15unpacked"]
FAMILIES += ["4halo19copied_lines", "4halo17flat_lines", "4halo18copied_rows"]
FAMILIES += ["9pointwise16pointwise", "9pointwise22pointwise_wgrad"]
FAMILIES += ["11phase_pairs18phase_pairs", "10all_phases17all_phases"]
TENSOR_CORE_KERNELS = f"8haloconv({'|'.join(FAMILIES)})_kernel"
CHANNELS_LAST_KERNELS = (
    "4sm90.*channels_last.*(channels_last|alternating|staying|turned|windows|strips|wgrad)_kernel"
)
FIRST_LAYER_KERNELS = "4sm90.*first_layers.*(fprop|plain_rows|dgrad|wgrad)_kernel"


def spilled(instructions: list[str]) -> list[str]:
    return [i for i in instructions if re.search(r"\b(STL|LDL)\b", i)]


def test_there_are_the_instances():
    tiles, tiles_that_split, types = 5, 3, 3
    halo = types * (tiles + tiles_that_split) + tiles  # and of float32 with a fusion
    few_channels, wgrad, wgrad_of_16_bits = types * 4, 7, 2 * 5
    # With folds, and of float32 in boxes.
    expected = 2 * (halo + wgrad) + few_channels + wgrad_of_16_bits
    # Of float32 that is not rounded: two tiles, with splits and without; three weight gradients.
    expected += 2 * (2 * 2 + 3)
    # Whose results the copy engine writes: pieces of one row, of 16 bits; of rows that follow each
    # other; of several rows, by two widths.
    expected += 2 + types + 2 * types
    # Forward and the input's gradient, this also spread, and the weight's without a bias and with
    # one; of float32 the weight's alone.
    pointwise_tiles, kinds, kinds_of_float32 = 4, 5, 2
    expected += pointwise_tiles * (2 * kinds + kinds_of_float32)
    patterns, pair_tiles = 4, 3
    expected += patterns * pair_tiles
    tiles_of_all_phases = 4
    expected += types * tiles_of_all_phases
    # row_strips by one block, and of float32 by two that share the source channels.
    expected += types + 1
    tiles_of_unpacked = 5
    expected += tiles_of_unpacked
    assert len(names(TENSOR_CORE_KERNELS)) == expected


def test_there_are_the_instances_for_channels_innermost():
    types, directions, kinds = 2, 2, 2  # plain, fused
    tiles, of_192_pixels, of_192_pixels_float32 = 5, 2, 1
    wgrad_tiles, wgrad_tiles_of_rows = 16, 5  # of the output's gradient
    wgrad_of_float32 = 4 + 2  # by groups; by rows and by squares
    narrow_windows, windows_to_32_channels, of_them_float32 = 7, 2, 1
    strips, narrow_strips, strips_to_16_of_float32 = 4, 1, 1
    alternating, staying = 3, 3  # by columns and by windows
    windows = tiles + narrow_windows + windows_to_32_channels
    columns = tiles + of_192_pixels
    of_16_bits = (columns + windows + strips + narrow_strips) * types * directions * kinds
    of_16_bits += (alternating + staying) * types * directions
    with_residual = (columns + tiles) * types  # of fprop, by the ring
    # Whose dgrad is fprop of a transposed filter.
    tiles_of_float32 = 2 * tiles + of_192_pixels_float32 + of_them_float32
    of_float32 = (tiles_of_float32 + strips + strips_to_16_of_float32) * kinds
    turned, turned_with_turns = 3, 3
    of_float32 += turned + turned_with_turns * directions
    wgrad = (wgrad_tiles + wgrad_tiles_of_rows) * types
    expected = of_16_bits + with_residual + of_float32 + wgrad + wgrad_of_float32
    assert len(names(CHANNELS_LAST_KERNELS)) == expected


def test_there_are_the_instances_of_first_layers():
    channels, channels_of_rows, kinds, sums, dgrad, chunks = 4, 2, 2, 5, 7, 2
    types, types_of_16_bits, layouts, wide_dgrad, tf32_dgrad = 3, 2, 2, 2, 4
    expected = (channels + channels_of_rows) * kinds * types
    expected += ((sums + dgrad) * layouts + wide_dgrad) * types_of_16_bits + tf32_dgrad
    # From rows as they lie.
    expected += (channels * kinds + chunks) * types_of_16_bits
    assert len(names(FIRST_LAYER_KERNELS)) == expected


def test_first_layers_in_tf32_do_not_spill():
    kernels, chunks = "4sm90.*first_layers.*warp_products_kernel", 2
    assert len(names(kernels)) == chunks
    for name, instructions in named(kernels).items():
        assert any("HMMA" in i for i in instructions), name
        assert not spilled(instructions), f"{name}: {spilled(instructions)[:4]}"


def among_products(instructions: list[str]) -> list[str]:
    """From the first matrix instruction to the last."""
    products = [i for i, text in enumerate(instructions) if "HGMMA" in text]
    return instructions[products[0] : products[-1]]


def test_tensor_cores_compute_and_nothing_spills():
    """Folds and all_phases look for what zeros made NaN after a tile's products.

    Registers may spill there, and where row_strips goes from one row to the next.
    """
    for name, instructions in named(TENSOR_CORE_KERNELS).items():
        assert any("HGMMA" in i for i in instructions), name
        spills_after = re.search(r"halo_kernel\w*Lb1EEE|all_phases_kernel|row_strips_kernel", name)
        checked = among_products(instructions) if spills_after else instructions
        assert not spilled(checked), f"{name}: {spilled(checked)[:4]}"


def test_products_of_weight_gradients_overlap():
    """With too few registers the compiler waits after each matrix instruction."""
    for name, instructions in named("8haloconv5wgrad12wgrad_kernel").items():
        products = sum("HGMMA" in i for i in instructions)
        waits = sum("WARPGROUP.DEPBAR" in i for i in instructions)
        assert 0 < waits < products, name


def test_tensor_cores_compute_with_channels_innermost():
    """What is fused follows a tile's products: registers may spill there."""
    for name, instructions in named(f"{CHANNELS_LAST_KERNELS}|{FIRST_LAYER_KERNELS}").items():
        assert any("HGMMA" in i for i in instructions), name
        # The residual must not wait for local memory, and a row's results are in the loop of rows.
        # A few words may be kept there: a strip's end, and what the widest sums leave no room for.
        is_dgrad = "first_layers12dgrad_kernel" in name
        is_whole = "8EpilogueE2" in name or is_dgrad
        checked = instructions if is_whole else among_products(instructions)
        assert len(spilled(checked)) <= (12 if is_dgrad else 0), name


def test_depthwise_kernels_of_float32_do_not_spill():
    layouts, filters, steps, kinds = 2, 4, 2, 3  # plain, fused, weight gradient
    strided_gradients = filters * 2 * 2  # with rows innermost: of origins even and odd; fused
    patches = filters * (steps + 1) * 2  # a gradient's stride too; fused
    lines = 4 * 2 + 3  # taps at a time, in a loop or not; fused; weight gradients
    last_sums = 2  # of a weight's partial sums, by one thread or by eight
    others = strided_gradients + patches + lines + last_sums
    pattern = "depthwise.*_kernelIf"
    assert len(names(pattern)) == layouts * filters * steps * kinds + others
    for name, instructions in named(pattern).items():
        assert not spilled(instructions), f"{name}: {spilled(instructions)[:4]}"


def test_matrix_instructions_are_not_serialised():
    """The compiler may wait for each by itself; the kernel does so once, after a tile's last.

    Of values in two terms it does so after a batch of steps: of four, or of the last three or less.
    Weight gradients also do so where a window takes the place of the one before, after strips of
    whole segments and of short ones; of values in two terms one loop has both.
    """
    for name, instructions in named(TENSOR_CORE_KERNELS).items():
        drained = [i for i in instructions if re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0", i)]
        is_precise = "PreciseFloat" in name
        if "5wgrad12" in name:
            expected = 2 if is_precise else 3
        else:
            expected = 4 if is_precise and "halo_kernel" in name else 1
        assert len(drained) == expected, name


def test_operands_in_registers_stay_until_they_are_read():
    """The compiler does not always see that an instruction on its way reads them."""
    pattern = f"{TENSOR_CORE_KERNELS}|{CHANNELS_LAST_KERNELS}|{FIRST_LAYER_KERNELS}"
    for name, instructions in named(pattern).items():
        assert not overwritten_operands(instructions), name


def among_warp_products(instructions: list[str]) -> list[str]:
    """From the first matrix instruction of a warp to the last."""
    products = [i for i, text in enumerate(instructions) if "HMMA" in text]
    return instructions[products[0] : products[-1]]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_tensor_cores_compute_on_every_chip_since_8_0(architecture: str):
    """What is fused follows a tile's products: registers may spill there."""
    gradients = "implicit_gemm_wgrad_kernel|windows_wgrad(_apart)?_kernel"
    pattern = f"13implicit_gemm.*implicit_gemm(_windows|_staged|_descents)?_kernel|{gradients}"
    if architecture == "sm_90" and not all(map(is_optimised, files(architecture))):
        pytest.skip("needs a GPU: without one these kernels are compiled for 8.0 alone")
    types, tiles, tiles_by_elements = 3, 6, 4
    tiles_with_windows, tiles_of_rows = 5, 6
    wgrad_tiles, wgrad_by_elements = 3, 3 + 2 + 2  # float32 in all tiles, 16-bit types in two
    wgrad_by_windows = 6
    descents = 1
    gather = types * (tiles + tiles_by_elements + tiles_with_windows + tiles_of_rows + descents)
    wgrad = types * (wgrad_tiles + wgrad_by_windows) + wgrad_by_elements
    assert len(names(pattern, architecture)) == gather + wgrad
    for name, instructions in named(pattern, architecture).items():
        assert any("HMMA" in i for i in instructions), name
        assert not spilled(among_warp_products(instructions)), name


COPIES = """
#include <cuda_fp16.h>
#include "conv2d/families/depthwise/bring.cuh"
using namespace haloconv::depthwise;
__global__ void copy(uint32_t* words, const uint32_t* from, __half* halves, const __half* of) {
  __shared__ uint4 shared[2];
  bring<uint32_t>(&shared[0], from, threadIdx.x < 3);
  bring_first<__half>(reinterpret_cast<__half*>(&shared[1]), of, 5);
  commit_copies();
  wait_for_all_but<0>();
  __syncthreads();
  words[threadIdx.x] = shared[0].x;
  halves[threadIdx.x] = reinterpret_cast<__half*>(&shared[1])[threadIdx.x];
}
"""


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize(
    "architecture, copies_ahead", [("compute_75", False), ("compute_80", True)]
)
def test_depthwise_kernels_copy_ahead_where_the_chip_can(tmp_path, architecture, copies_ahead):
    (tmp_path / "copy.cu").write_text(COPIES)
    command = ["nvcc", "-ptx", "-std=c++20", "-I", ROOT / "op", "-arch", architecture, "copy.cu"]
    run(*command, cwd=tmp_path)
    assert ("cp.async" in (tmp_path / "copy.ptx").read_text()) == copies_ahead


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("source", ["rows.cu", "channels.cu", "products.cu", "periods.cu"])
def test_kernels_for_groups_of_four_compile_for_the_oldest_chip(tmp_path, source):
    path = ROOT / "op/conv2d/families/quad_groups" / source
    command = ["nvcc", "-cubin", "-std=c++20", "-I", ROOT / "op", "-arch", "sm_75"]
    run(*command, "-Wno-deprecated-gpu-targets", path, "-o", tmp_path / "cubin")
    types = 3 if source == "rows.cu" else 2
    filters = 2 if source == "periods.cu" else 3
    assert len(names_in(tmp_path / "cubin")) == types * filters
