// The accumulators of a matrix instruction, written once for all its widths: their numbers in its
// text, and the operands themselves. An instruction of n columns has n / 2 of them for a thread.
//
//   HALOCONV_NAMES_3       "%48, %49, ..., %63", the fourth 16 of them
//   HALOCONV_SUMS_16(32)   "+f"(d[32]), ..., "+f"(d[47])
//
// For wgmma.cuh, wgmma_shared.cuh and wgmma_turned.cuh alone.
#pragma once

#define HALOCONV_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HALOCONV_NAMES_1 \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HALOCONV_NAMES_2 \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define HALOCONV_NAMES_3 \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HALOCONV_NAMES_4 \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define HALOCONV_NAMES_5 \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HALOCONV_NAMES_6 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define HALOCONV_NAMES_7 \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define HALOCONV_SUMS_4(i) "+f"(d[(i)]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define HALOCONV_SUMS_8(i) HALOCONV_SUMS_4(i), HALOCONV_SUMS_4((i) + 4)
#define HALOCONV_SUMS_16(i) HALOCONV_SUMS_8(i), HALOCONV_SUMS_8((i) + 8)
#define HALOCONV_SUMS_32(i) HALOCONV_SUMS_16(i), HALOCONV_SUMS_16((i) + 16)
#define HALOCONV_SUMS_64(i) HALOCONV_SUMS_32(i), HALOCONV_SUMS_32((i) + 32)
