"""Makes most of the payments that schemathesis sends acceptable.

A schema cannot say that a time lies in the future or which gateways are configured; without this nearly every
create would be refused, and the stateful phase would have no payment to go on with. One in four bodies is left
as it was generated, and what is not a payment always is.
"""
import datetime
import hashlib
import json

import schemathesis


def acceptable(payment):
    draw = hashlib.sha256(json.dumps(payment, sort_keys=True).encode()).digest()
    if draw[0] % 4 == 0:
        return payment
    due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1, seconds=draw[1])
    payment = {name: value for name, value in payment.items() if name not in ("gateway", "executeBefore")}
    payment["dueAt"] = due.strftime("%Y-%m-%dT%H:%M:%SZ")
    if draw[2] % 2:
        payment["executeBefore"] = (due + datetime.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return payment


def is_payment(body):
    return isinstance(body, dict) and isinstance(body.get("dueAt"), str) and isinstance(body.get("amount"), int)


@schemathesis.hook
def map_body(context, body):
    if is_payment(body):
        return acceptable(body)
    if isinstance(body, dict) and isinstance(body.get("payments"), list):
        payments = [acceptable(item) if is_payment(item) else item for item in body["payments"]]
        return {**body, "payments": payments}
    return body
