"""The number of output files of a group, and the size to which the writer may let them grow.

Pure arithmetic on bytes, the same as in the reference implementation (Java: SizeBasedFileRewritePlanner.expectedOutputFiles,
inputSplitSize, writeMaxFileSize): a remainder becomes a separate file only if it is larger than ``min-file-size-bytes``; a smaller
one is distributed over the other files while those stay within a tenth of the target.
"""

from __future__ import annotations

from iceberg_ops.config.options import SizeOptions

SPLIT_OVERHEAD = 5 * 1024
"""Bytes added to a split so that rounding does not leave a tiny last one."""


def write_max_file_size(sizes: SizeOptions) -> int:
    """The size at which a writer must roll: half way between target and max, as estimates may be low."""
    return sizes.target_file_size_bytes + (sizes.max_file_size_bytes - sizes.target_file_size_bytes) // 2


def expected_output_files(input_bytes: int, sizes: SizeOptions) -> int:
    """How many files ``input_bytes`` should become; at least 1."""
    target = sizes.target_file_size_bytes
    if input_bytes < target:
        return 1
    rounded_down, remainder = divmod(input_bytes, target)
    if remainder == 0:
        return rounded_down
    if remainder > sizes.min_file_size_bytes:
        return rounded_down + 1
    if input_bytes / rounded_down < min(1.1 * target, write_max_file_size(sizes)):
        return rounded_down
    return rounded_down + 1


def output_target_size(input_bytes: int, sizes: SizeOptions) -> int:
    """Bytes after which a writer starts the next file: an even share, never below the target nor above the write maximum."""
    share = -(-input_bytes // expected_output_files(input_bytes, sizes)) + SPLIT_OVERHEAD
    return max(sizes.target_file_size_bytes, min(share, write_max_file_size(sizes)))
