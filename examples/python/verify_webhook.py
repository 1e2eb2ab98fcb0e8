#!/usr/bin/env python3
"""Verify a webhook of ours: standard library only. As a command:

    WEBHOOK_SECRET=whsec_… examples/python/verify_webhook.py ID TIMESTAMP SIGNATURES < body

with the three headers webhook-id, webhook-timestamp and webhook-signature. Prints the event's type, or ends with 1.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time


def verify(secret, webhook_id, timestamp, signatures, body, now=None, tolerance=300):
    """The event, from the body's bytes as they came: not parsed and written again. ValueError: not from us."""
    if not timestamp.isascii() or not timestamp.isdigit():
        raise ValueError("no timestamp")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise ValueError("sent long ago, or in the future")
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    wanted = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # Several while a secret is rotated; one that fits is enough. In constant time.
    if not any(hmac.compare_digest(wanted, one.encode()) for one in signatures.split(" ")):
        raise ValueError("signed by nobody we know")
    return json.loads(body)


if __name__ == "__main__":
    try:
        event = verify(os.environ["WEBHOOK_SECRET"], *sys.argv[1:4], sys.stdin.buffer.read())
    except ValueError as error:
        sys.exit(f"refused: {error}")
    print(event["type"], event["id"])
