"""What is measured: one module for each question asked of the engine."""

from benchmarks.row import Row
from benchmarks.rows import answered, concurrent, long_run, paused, resumed, sequential

ROWS: tuple[Row, ...] = (
    *sequential.ROWS,
    *concurrent.ROWS,
    *resumed.ROWS,
    *answered.ROWS,
    *long_run.ROWS,
    *paused.ROWS,
)
