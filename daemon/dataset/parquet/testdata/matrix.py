"""Writes Parquet files by one of three writers: every codec with every encoding and page version. With each go the values that it holds.

python3 matrix.py WRITER DIRECTORY [small]

NAME.parquet has the columns of NAME.json, or of WRITER.json where all files have the same: {"column": {"kind": ..., "values": [...]}}. A value is
a text, null, or a list of texts and nulls. Numbers (of 32 bits or of 64) are compared as numbers, times as nanoseconds since 1970, all others as
texts. With small there are few rows in few files. testdata/small was written by
    python3 matrix.py pyarrow small small; python3 matrix.py fastparquet small small
"""
import datetime
import decimal
import itertools
import json
import os
import random
import sys
import uuid

WRITER, OUT = sys.argv[1], sys.argv[2]
SMALL = len(sys.argv) > 3
ROWS = 30 if SMALL else 700
rand = random.Random(1)
EPOCH = datetime.datetime(1970, 1, 1)


def maybe(f, nulls=True):
    """ROWS values of f, with nulls alone and in runs."""
    out = [f(i) for i in range(ROWS)]
    if nulls:
        for i in range(ROWS):
            if rand.random() < 0.1 or ROWS // 4 < i < ROWS // 3:
                out[i] = None
    return out


def nanos(t):
    d = t - EPOCH
    return str(((d.days * 86400 + d.seconds) * 1000000 + d.microseconds) * 1000)


def text(kind, v):
    if v is None:
        return None
    if kind == "list":
        return [None if x is None else str(x) for x in v]
    if kind == "bool":
        return "true" if v else "false"
    if kind == "time":
        return nanos(v)
    if kind == "decimal":
        return format(v.normalize() + 0, "f")
    if kind == "clock":
        return v.isoformat().rstrip("0").rstrip(".") if v.microsecond else v.isoformat()
    if kind in ("float", "float32"):
        return repr(float(v))
    return str(v)


def save(name, columns):
    if SMALL:  # whose files all hold the same
        name = WRITER
    with open(os.path.join(OUT, name + ".json"), "w") as f:
        json.dump({c: {"kind": k, "values": [text(k, v) for v in vs]} for c, (k, vs) in columns.items()}, f)


def moment(i, unit):
    t = EPOCH + datetime.timedelta(days=rand.randrange(-20000, 30000), microseconds=rand.randrange(86400 * 10**6))
    return t.replace(microsecond=t.microsecond // unit * unit)


def data():
    """The values by column: (kind, values, Arrow's type or None)."""
    names = ["n%d" % i for i in range(9)] + ["", "ünï🙂", "a|b", "x" * (30 if SMALL else 300)]
    number = decimal.Decimal
    out = {
        "bool": ("bool", maybe(lambda i: rand.random() < 0.5), "bool_"),
        "rare": ("bool", maybe(lambda i: i % 97 == 0, False), "bool_"),
        "runs": ("bool", maybe(lambda i: i // 50 % 2 == 0), "bool_"),
        "i8": ("text", maybe(lambda i: rand.randrange(-128, 128)), "int8"),
        "i16": ("text", maybe(lambda i: rand.randrange(-2**15, 2**15), False), "int16"),
        "i32": ("text", maybe(lambda i: rand.choice([0, -2**31, 2**31 - 1, i])), "int32"),
        "i64": ("text", maybe(lambda i: rand.choice([0, -2**63, 2**63 - 1, i, 10**12 + i])), "int64"),
        "steps": ("text", maybe(lambda i: 1700000000000 + 1000 * i, False), "int64"),
        "u8": ("text", maybe(lambda i: rand.randrange(256)), "uint8"),
        "u32": ("text", maybe(lambda i: rand.randrange(2**32)), "uint32"),
        "u64": ("text", maybe(lambda i: rand.randrange(2**64)), "uint64"),
        "f32": ("float32", maybe(lambda i: rand.choice([0.5, -1.25, float(i), 2.0**100])), "float32"),
        "f64": ("float", maybe(lambda i: rand.gauss(0, 1e3)), "float64"),
        "text": ("text", maybe(lambda i: rand.choice(names)), "string"),
        "ids": ("text", maybe(lambda i: "user_%06d" % (i * 37 % ROWS), False), "string"),
        "long": ("text", maybe(lambda i: "same beginning %s" % (i * "z" if i < 90 else i)), "string"),
        "one": ("text", maybe(lambda i: "only", False), "string"),
        "none": ("text", [None] * ROWS, "string"),
        "day": ("text", maybe(lambda i: datetime.date(1970, 1, 1) + datetime.timedelta(days=rand.randrange(-30000, 30000))), "date32"),
        "ms": ("time", maybe(lambda i: moment(i, 1000)), "timestamp:ms"),
        "us": ("time", maybe(lambda i: moment(i, 1)), "timestamp:us"),
        "ns": ("time", maybe(lambda i: moment(i, 1)), "timestamp:ns"),
        "dec4": ("decimal", maybe(lambda i: number(rand.randrange(-9999, 10000)).scaleb(-2)), "decimal128:4,2"),
        "dec15": ("decimal", maybe(lambda i: number(rand.randrange(-10**15 + 1, 10**15)).scaleb(-3)), "decimal128:15,3"),
        "dec30": ("decimal", maybe(lambda i: number(rand.randrange(-10**28, 10**28)).scaleb(-7)), "decimal128:30,7"),
        "lists": ("list", maybe(lambda i: [rand.choice(names) for _ in range(rand.randrange(4))]), "list:string"),
        "holes": ("list", maybe(lambda i: [rand.choice([None, "a", "b"]) for _ in range(rand.randrange(3))], False), "list:string"),
        "wholes": ("list", maybe(lambda i: [rand.randrange(-5, 10**6) for _ in range(i % 5)]), "list:int64"),
        "clock": ("clock", maybe(lambda i: moment(i, 1).time()), "time64:us"),
        "uuid": ("text", maybe(lambda i: uuid.UUID(int=rand.getrandbits(128))), "uuid"),
        "half": ("float32", maybe(lambda i: rand.choice([0.5, -2.0, 65504.0, 2.0**-24, 0.0, i / 8 if i < 100 else 1.0])), "float16"),
    }
    return out


def with_pyarrow():
    import numpy
    import pyarrow as pa
    import pyarrow.parquet as pq

    def array(kind, values, arrow):
        name, _, rest = arrow.partition(":")
        if name == "timestamp":
            return pa.array(values, pa.timestamp(rest))
        if name == "time64":
            return pa.array(values, pa.time64(rest))
        if name == "decimal128":
            return pa.array(values, pa.decimal128(*map(int, rest.split(","))))
        if name == "list":
            return pa.array(values, pa.list_(getattr(pa, rest)()))
        if name == "uuid":
            return pa.array([v and v.bytes for v in values], pa.binary(16)).cast(pa.uuid())
        if name == "float16":
            return pa.array([None if v is None else numpy.float16(v) for v in values], pa.float16())
        return pa.array(values, getattr(pa, name)())

    columns = data()
    table = pa.table({c: array(*v) for c, v in columns.items()})
    split = {c for c, v in columns.items() if v[2] in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64", "date32",
                                                       "uuid", "float16", "time64:us") or v[2].startswith(("timestamp", "decimal"))}
    whole = {c for c in split if columns[c][2] not in ("float32", "float64", "uuid", "float16") and not columns[c][2].startswith("decimal")}
    strings = {c for c, v in columns.items() if v[2] in ("string", "list:string")}
    paths = {"lists": "lists.list.element", "holes": "holes.list.element", "wholes": "wholes.list.element"}

    def of(*pairs):
        return {paths.get(c, c): e for cs, e in pairs for c in cs}

    encodings = {
        "dictionary": None,
        "plain": of((columns, "PLAIN")),
        "delta": of((whole | {"wholes"}, "DELTA_BINARY_PACKED"), (strings, "DELTA_LENGTH_BYTE_ARRAY"), (["bool", "rare", "runs"], "RLE"),
                    (["uuid", "half"], "DELTA_BYTE_ARRAY")),
        "shared": of((strings, "DELTA_BYTE_ARRAY"), (["dec30", "dec15", "dec4"], "DELTA_BYTE_ARRAY"), (["bool", "rare", "runs"], "RLE")),
        "split": of((split | {"wholes"}, "BYTE_STREAM_SPLIT")),
    }
    codecs = ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]
    cases = list(itertools.product(codecs, encodings, ["1.0", "2.0"], [64, 1 << 20]))
    if SMALL:
        cases = [("lz4", "dictionary", "2.0", 256), ("lz4", "plain", "1.0", 1 << 20), ("snappy", "delta", "2.0", 256), ("none", "shared", "1.0", 256),
                 ("zstd", "split", "2.0", 256)]
    for codec, encoding, version, size in cases:
        name = "pyarrow-%s-%s-%s-%d" % (codec, encoding, version, size)
        options = {"use_dictionary": True} if encodings[encoding] is None else {"use_dictionary": False, "column_encoding": encodings[encoding]}
        pq.write_table(table, os.path.join(OUT, name + ".parquet"), compression=codec, data_page_version=version, data_page_size=size,
                       write_batch_size=1 if size < 1000 else 1024, row_group_size=ROWS * 2 // 3, write_page_checksum=size < 1000,
                       store_schema=False, write_statistics=not SMALL, store_decimal_as_integer=encoding == "split", **options)
        save(name, {c: v[:2] for c, v in columns.items()})
    if not SMALL:
        for codec in codecs:  # as Spark has long written times
            name = "pyarrow-int96-" + codec
            times = table.select(["ns", "us", "text"])
            pq.write_table(times, os.path.join(OUT, name + ".parquet"), compression=codec, use_deprecated_int96_timestamps=True)
            save(name, {c: columns[c][:2] for c in times.column_names})


def with_fastparquet():
    import fastparquet
    import numpy
    import pandas as pd

    columns = data()
    frame, kept = {}, {}
    kinds = {"bool": "boolean", "runs": "boolean", "rare": "bool", "i8": "Int8", "i16": "int16", "i32": "Int32", "i64": "Int64", "steps": "int64",
             "u8": "UInt8", "u32": "UInt32", "u64": "UInt64", "f32": "float32", "f64": "float64"}
    for c, (kind, values, _) in columns.items():
        if c in kinds:
            frame[c] = pd.array(values, dtype=kinds[c]) if kinds[c][0].isupper() or kinds[c] == "boolean" else pd.Series(
                [numpy.nan if v is None else v for v in values], dtype=kinds[c])
        elif c in ("text", "ids", "long", "one"):
            frame[c] = pd.Series(values, dtype=object)
        elif c in ("ms", "us", "ns"):
            frame[c] = pd.Series(pd.to_datetime(values)).astype("datetime64[%s]" % c)
        else:
            continue
        kept[c] = (kind, values)
    frame = pd.DataFrame(frame)
    cases = list(itertools.product(["UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "LZ4", "LZ4_RAW", "ZSTD"], ["int64", "int96"], [1, 2]))
    for codec, times, version in [("LZ4", "int96", 1)] if SMALL else cases:
        fastparquet.writer.DATAPAGE_VERSION = version
        for name in ["plain", "category"]:
            f, k = frame, dict(kept)
            if name == "category":
                f = frame.copy()
                f["text"] = f["text"].astype("category")
                f["one"] = f["one"].astype("category")
            if times == "int96":
                f, k = f.drop(columns=["ms", "us"]), {c: v for c, v in k.items() if c not in ("ms", "us")}
            name = "fastparquet-%s-%s-v%d-%s" % (codec, times, version, name)
            fastparquet.write(os.path.join(OUT, name + ".parquet"), f, compression=codec, times=times, row_group_offsets=ROWS * 2 // 3,
                              object_encoding="utf8", write_index=False)
            save(name, k)


def with_duckdb():
    import duckdb

    columns = data()
    types = {"bool_": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "UTINYINT",
             "uint32": "UINTEGER", "uint64": "UBIGINT", "float32": "FLOAT", "float64": "DOUBLE", "string": "VARCHAR", "date32": "DATE",
             "timestamp:ms": "TIMESTAMP_MS", "timestamp:us": "TIMESTAMP", "timestamp:ns": "TIMESTAMP_NS", "time64:us": "TIME", "uuid": "UUID",
             "list:string": "VARCHAR[]", "list:int64": "BIGINT[]"}
    kept = {c: v for c, v in columns.items() if v[2] in types or v[2].startswith("decimal128")}
    db = duckdb.connect()
    db.execute("SET preserve_insertion_order = true")
    db.execute("CREATE TABLE t (%s)" % ", ".join('"%s" %s' % (c, types.get(v[2]) or "DECIMAL(%s)" % v[2].partition(":")[2]) for c, v in kept.items()))
    for row in zip(*(v[1] for v in kept.values())):
        db.execute("INSERT INTO t VALUES (%s)" % ", ".join("?" * len(row)), [str(x) if isinstance(x, uuid.UUID) else x for x in row])
    for codec, version, dictionary in itertools.product(["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw"], ["V1", "V2"], [1, 10**6]):
        name = "duckdb-%s-%s-%d" % (codec, version, dictionary)
        db.execute("COPY t TO '%s' (FORMAT parquet, COMPRESSION %s, PARQUET_VERSION %s, ROW_GROUP_SIZE 2048, DICTIONARY_SIZE_LIMIT %d)" %
                   (os.path.join(OUT, name + ".parquet"), codec, version, dictionary))
        save(name, {c: v[:2] for c, v in kept.items()})


{"pyarrow": with_pyarrow, "fastparquet": with_fastparquet, "duckdb": with_duckdb}[WRITER]()
