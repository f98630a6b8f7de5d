from __future__ import annotations

import duckdb
import numpy as np
import pytest


@pytest.fixture
def write(tmp_path):
    """Write rows of columns to a file whose name says what it is."""

    def make(name, **columns):
        path = tmp_path / name
        names = ", ".join(f'"{column}"' for column in columns)
        connection = duckdb.connect(str(path) if path.suffix == ".duckdb" else ":memory:")
        known = {column: [value for value in values if value is not None] for column, values in columns.items()}
        arrays = {column: np.asarray(values) for column, values in known.items()}  # a missing number leaves numbers
        kinds = {"i": "BIGINT", "f": "DOUBLE"}
        spec = ", ".join(f'"{c}" {kinds.get(a.dtype.kind, "VARCHAR")}' for c, a in arrays.items())
        connection.execute(f"CREATE TABLE rows ({spec})")
        rows = list(zip(*(np.asarray(values, object).tolist() for values in columns.values()), strict=True))
        connection.executemany(f"INSERT INTO rows ({names}) VALUES ({', '.join('?' * len(columns))})", rows)
        if path.suffix != ".duckdb":
            form = "FORMAT parquet" if path.suffix == ".parquet" else "FORMAT csv, HEADER"
            connection.execute(f"COPY rows TO '{path}' ({form})")
        connection.close()
        return path

    return make
