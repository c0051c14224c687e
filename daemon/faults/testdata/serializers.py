"""Events by the serializers of confluent-kafka, which register their schemas: serializers.py REGISTRY BROKER COUNT TOPIC...

There are three topics: Avro with a type of another subject, Protobuf with a message of another file, JSON behind a JSON Schema. Each gets COUNT events,
in two schemas, one after the other.
"""

import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

url, broker, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
topics = dict(zip(["avro", "protobuf", "json"], sys.argv[4:], strict=True))
registry = SchemaRegistryClient({"url": url})
producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
start = 1700000000000


def event(i):
    return {"user": f"u{i % 50}", "what": {"item": f"i{i % 20}"}, "rating": 1 + i * i // 7 % 5, "ts": start + i}


def send(kind, serializer, of, ids):
    topic = topics[kind]
    for i in ids:
        headers = []
        value = serializer(of(event(i)), SerializationContext(topic, MessageField.VALUE, headers))
        producer.produce(topic, value, key=f"k{i}", headers=headers)


def halves():
    return range(count // 2), range(count // 2, count)


ITEM = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "item", "type": "string"}]}


def avro_schema(*more):
    fields = [
        {"name": "user", "type": ["null", "string"], "default": None},
        {"name": "what", "type": "shop.Item"},
        {"name": "rating", "type": "int"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        *more,
    ]
    return {"type": "record", "name": "Rating", "namespace": "shop", "fields": fields}


def send_avro():
    registry.register_schema("item-avro", Schema(json.dumps(ITEM), "AVRO"))
    item = [SchemaReference("shop.Item", "item-avro", 1)]
    texts = [avro_schema(), avro_schema({"name": "tag", "type": "string", "default": "none"})]
    for text, ids in zip(texts, halves(), strict=True):
        schema = Schema(json.dumps(text), "AVRO", item)
        send("avro", AvroSerializer(registry, schema, lambda e, _: {**e, "tag": "t"}), lambda e: e, ids)


def protobuf(version):
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    field = descriptor_pb2.FieldDescriptorProto
    item = descriptor_pb2.FileDescriptorProto(name="shop/item.proto", package="shop", syntax="proto3")
    item.message_type.add(name="Item").field.add(name="item", number=1, type=field.TYPE_STRING, label=1)
    pool.Add(item)
    file = descriptor_pb2.FileDescriptorProto(name=f"shop/rating{version}.proto", package="shop", syntax="proto3")
    file.dependency.extend(["shop/item.proto", "google/protobuf/timestamp.proto"])
    file.message_type.add(name=f"Other{version}")
    message = file.message_type.add(name=f"Rating{version}")
    message.field.add(name="user", number=version, type=field.TYPE_STRING, label=1)
    message.field.add(name="what", number=4, type=field.TYPE_MESSAGE, type_name=".shop.Item", label=1)
    message.field.add(name="rating", number=5, type=field.TYPE_SINT32, label=1)
    message.field.add(name="ts", number=6, type=field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.Rating{version}"))


def send_protobuf():
    for version, ids in zip([1, 2], halves(), strict=True):
        kind = protobuf(version)

        def message(e):
            m = kind(user=e["user"], rating=e["rating"])
            m.what.item = e["what"]["item"]
            m.ts.FromMilliseconds(e["ts"])
            return m

        conf = {"use.deprecated.format": False, "skip.known.types": True}
        send("protobuf", ProtobufSerializer(kind, registry, conf), message, ids)


def send_json():
    text = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Rating", "type": "object"}
    texts = [text, {**text, "properties": {"user": {"type": "string"}}}]
    for text, ids in zip(texts, halves(), strict=True):
        send("json", JSONSerializer(json.dumps(text), registry), lambda e: e, ids)


for what in (send_avro, send_protobuf, send_json):
    what()
if producer.flush(60):
    sys.exit("events are left")
