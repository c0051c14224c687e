"""Events by a Kafka client for Python, and the answers to them: clients.py CLIENT BROKER EVENTS ANSWERS [COUNT].

Without COUNT it sends 600 events with keys, headers and compression, 300 in a transaction that it commits and 300 in one that it aborts. With it, it reads
what is committed in ANSWERS until there are so many, and prints a line for each.
"""

import json
import sys
import time

client, broker, events, answers = sys.argv[1:5]
count = int(sys.argv[5]) if len(sys.argv) > 5 else 0
limit = 60  # seconds


def event(i):
    value = {"user": f"u{i % 50}", "item": f"i{i % 20}", "rating": 1 + i * i // 7 % 5, "ts": 1700000000000 + i}
    return json.dumps(value).encode(), f"u{i % 50}".encode(), [("client", client.encode())]


def send_kafka_python():
    from kafka import KafkaProducer

    plain = KafkaProducer(bootstrap_servers=broker, compression_type="gzip", acks="all", linger_ms=20)
    for i in range(600):
        value, key, headers = event(i)
        plain.send(events, value, key=key, headers=headers)
    plain.flush(limit)
    plain.close()
    both = KafkaProducer(bootstrap_servers=broker, transactional_id="python-" + events)
    both.init_transactions()
    for end in (both.commit_transaction, both.abort_transaction):
        both.begin_transaction()
        for i in range(300):
            value, key, headers = event(i)
            both.send(events, value, key=key, headers=headers)
        both.flush(limit)
        end()
    both.close()


def send_confluent():
    from confluent_kafka import Producer

    plain = Producer({"bootstrap.servers": broker, "compression.type": "zstd", "enable.idempotence": True})
    for i in range(600):
        value, key, headers = event(i)
        plain.produce(events, value, key=key, headers=headers)
    if plain.flush(limit):
        sys.exit("events are left")
    both = Producer({"bootstrap.servers": broker, "transactional.id": "librdkafka-" + events, "compression.type": "lz4"})
    both.init_transactions(limit)
    for end in (both.commit_transaction, both.abort_transaction):
        both.begin_transaction()
        for i in range(300):
            value, key, headers = event(i)
            both.produce(events, value, key=key, headers=headers)
        if both.flush(limit):
            sys.exit("events are left")
        end(limit)


def read_kafka_python():
    from kafka import KafkaConsumer

    reader = KafkaConsumer(answers, bootstrap_servers=broker, auto_offset_reset="earliest", isolation_level="read_committed", group_id=None,
                           consumer_timeout_ms=1000 * limit)
    for record in reader:
        yield record.value


def read_confluent():
    from confluent_kafka import Consumer

    reader = Consumer({"bootstrap.servers": broker, "group.id": "librdkafka-" + answers, "auto.offset.reset": "earliest", "isolation.level": "read_committed",
                       "enable.auto.commit": False})
    reader.subscribe([answers])
    until = time.monotonic() + limit
    while time.monotonic() < until:
        record = reader.poll(1)
        if record is not None and record.error() is None:
            yield record.value()


if not count:
    {"kafka-python": send_kafka_python, "confluent-kafka": send_confluent}[client]()
else:
    read = {"kafka-python": read_kafka_python, "confluent-kafka": read_confluent}[client]()
    for _, value in zip(range(count), read):
        print(value.decode())
