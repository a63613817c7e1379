"""Compares what the two examples printed: the same PSNR, and a gain of at least so many dB.

check_psnr.py PYTHON_OUTPUT CPP_OUTPUT MIN_GAIN
"""

import re
import sys
from pathlib import Path

MAX_DIFFERENCE = 0.01  # dB: rounding in another order moves it by less than a thousandth


def psnr(path: str, which: str) -> float:
    return float(re.search(rf"{which} +(\S+) dB", Path(path).read_text())[1])


def main() -> None:
    python, cpp, min_gain = sys.argv[1:]
    for which in ("noisy", "denoised"):
        if abs(psnr(python, which) - psnr(cpp, which)) > MAX_DIFFERENCE:
            sys.exit(f"error: Python and C++ differ in the {which} photograph's PSNR")
    gain = psnr(cpp, "denoised") - psnr(cpp, "noisy")
    if gain < float(min_gain):
        sys.exit(f"error: denoising gained {gain:.2f} dB, fewer than {min_gain}")
    print(f"Python and C++ agree; denoising gained {gain:.2f} dB")


if __name__ == "__main__":
    main()
