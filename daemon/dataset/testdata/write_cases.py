"""Writes small Parquet files with pyarrow into a directory: types of columns that few programs write, two columns of one name, and no rows."""
import decimal
import os
import sys
import uuid

import numpy
import pyarrow as pa
import pyarrow.parquet as pq


def write(name, table, **options):
    pq.write_table(table, os.path.join(sys.argv[1], name), store_schema=False, **options)


number = decimal.Decimal
ids = [uuid.UUID(int=7), uuid.UUID("123e4567-e89b-12d3-a456-426614174000"), None]
write("types.parquet", pa.table({
    "user": pa.array([v and v.bytes for v in ids], pa.binary(16)).cast(pa.uuid()),
    "rating": pa.array([number("4.5"), number("3.0"), number("-1.0")], pa.decimal128(3, 1)),
    "price": pa.array([number("1234567.25"), None, number("-0.01")], pa.decimal128(12, 2)),
    "big": pa.array([number("12345678901234567890123.25"), None, None], pa.decimal128(38, 2)),
    "item": pa.array([number(12), number(13), number(14)], pa.decimal128(9, 0)),
    "weight": pa.array([numpy.float16(0.5), numpy.float16(2), None], pa.float16()),
    "clock": pa.array([3600 * 10**6, 1, None], pa.time64("us")),
    "nothing": pa.array([None, None, None], pa.null()),
    "place": [{"x": 1}, {"x": 2}, {"x": 3}],
    "grid": pa.array([[[1]], [[2]], []], pa.list_(pa.list_(pa.int64()))),
    "about": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "hash": pa.array([b"abc", b"def", b"ghi"], pa.binary(3)),
}))
write("twice.parquet", pa.Table.from_arrays([pa.array(["u1"]), pa.array([1]), pa.array([2])], names=["user", "rating", "rating"]))
write("empty.parquet", pa.table({"user": pa.array([], pa.string()), "rating": pa.array([], pa.int64())}))
