"""The full outer join of events and their outcomes by DuckDB, restricted to the best keys of each role.

join.py DIR: DIR has events.jsonl (id, user, item, ts), outcomes.jsonl (of, v, ts), keys.jsonl (id, role, hash) with all
keys of both, and roles.jsonl (role, capacity). Of a key the newest event counts, and all outcomes. Best are the
smallest hashes: as many of either side as there is room for, and none beyond where either side was cut. Prints a row as
JSON a line, by role and hash.
"""
import json
import sys

import duckdb

db = duckdb.connect()
for name in ("events", "outcomes", "keys", "roles"):
    db.execute(f"create table {name} as select row_number() over () as line, * from "
               f"read_json('{sys.argv[1]}/{name}.jsonl', format = 'newline_delimited')")
rows = db.execute("""
    with
      shown as (select * from events qualify row_number() over (partition by id order by ts desc, line desc) = 1),
      came as (select "of" as id, list([ts, v] order by ts, line) as outcomes from outcomes group by all),
      joined as (select coalesce(shown.id, came.id) as id, shown.id is not null as seen, shown.ts, "user", item, outcomes
                 from shown full outer join came on shown.id = came.id),
      ranked as (select *,
                   row_number() over (partition by role, seen order by hash) as of_events,
                   row_number() over (partition by role, outcomes is null order by hash) as of_outcomes
                 from joined join keys using (id) join roles using (role)),
      cuts as (select role, min(hash) as cut from ranked
               where seen and of_events > capacity or outcomes is not null and of_outcomes > capacity group by role)
    select role, id, seen, ts, "user", item, outcomes
    from ranked left join cuts using (role) where cut is null or hash < cut order by role, hash""").fetchall()
for role, key, seen, ts, user, item, outcomes in rows:
    print(json.dumps([role, key, ts, user, item, outcomes or []] if seen else [role, key, outcomes],
                     separators=(",", ":")))
