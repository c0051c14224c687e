"""Writes a small Parquet file with pandas (by pyarrow): every type of column that fields may be, and one that none can."""
import sys
import pandas as pd

pd.DataFrame({
    "user": ["u1", "u2", "ü|3"],
    "item": [7, 8, 9],
    "rating": [4.5, 3.0, 1.0],
    "up": [True, False, True],
    "price": pd.array([1.25, None, 3.5], dtype="Float64"),
    "shop": pd.array([12, None, 14], dtype="Int64").astype("float64"),
    "tags": [["a", "b|c"], [], ["a"]],
    "when": pd.to_datetime(["2024-01-02 03:04:05.678", "2024-01-02 03:04:06", "2024-01-02"], format="ISO8601"),
    "place": [{"x": 1}, {"x": 2}, {"x": 3}],
}).to_parquet(sys.argv[1], index=False, compression=None if sys.argv[2] == "none" else sys.argv[2])
