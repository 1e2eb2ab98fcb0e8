"""Verifies the answer of /v1/scheduled-payments/{id}/history/proof, read from standard input."""
import hashlib
import json
import sys

proof = json.load(sys.stdin)
prev = bytes(32)
for number, row in enumerate(proof["data"], start=1):
    if row["seq"] != number or bytes.fromhex(row["prev"]) != prev:
        sys.exit(f"row {number} does not follow the one before it")
    prev = hashlib.sha256(prev + row["input"].encode()).digest()
    if prev.hex() != row["hash"]:
        sys.exit(f"row {number} was changed")
if prev.hex() != proof["head"]:
    sys.exit("the last row is not the one that the payment names")
print(len(proof["data"]))
