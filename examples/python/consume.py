#!/usr/bin/env python3
"""Act on every event of payments once, each payment's in order; `pip install confluent-kafka`.

    KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092 examples/python/consume.py events.db

Events are kept by payment and sequence, which removes repetitions, and acted upon in order, which waits for gaps.
Both are in the database before the offset is committed: after a crash events come again and change nothing.
"""
import json, os, sqlite3, sys
from confluent_kafka import Consumer

FOLLOWING = """SELECT e.body, e.sequence FROM event e JOIN acted a ON a.payment = e.payment
               WHERE e.payment = ? AND e.sequence = a.sequence + 1"""
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE IF NOT EXISTS event (payment, sequence, body, PRIMARY KEY (payment, sequence))")
db.execute("CREATE TABLE IF NOT EXISTS acted (payment PRIMARY KEY, sequence)")
consumer = Consumer({"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"], "enable.auto.commit": False,
                     "group.id": os.environ.get("CONSUMER_GROUP", "example"), "auto.offset.reset": "earliest"})
consumer.subscribe([os.environ.get("PUNCTUAL_KAFKA__TOPIC_PREFIX", "payments.") + "events"])
while True:
    records = [record for record in consumer.consume(500, 1.0) if not record.error()]
    with db:  # one transaction: what came, and what was done about it
        for event in (json.loads(record.value()) for record in records):
            place = (event["subject"], event["sequence"])
            db.execute("INSERT OR IGNORE INTO event VALUES (?, ?, ?)", (*place, json.dumps(event)))
            db.execute("INSERT OR IGNORE INTO acted VALUES (?, ?)", (place[0], place[1] - 1))  # the first one met
            while row := db.execute(FOLLOWING, place[:1]).fetchone():
                print(row[0], flush=True)  # act here; this line may be printed again after a crash, the database not
                db.execute("UPDATE acted SET sequence = ? WHERE payment = ?", (row[1], place[0]))
    if records:
        consumer.commit(asynchronous=False)
