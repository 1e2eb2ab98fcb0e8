#!/usr/bin/env python3
"""Create a payment, repeat it safely, cancel one, wait for one to complete: standard library only.

    PUNCTUAL_URL=http://127.0.0.1:8080 PUNCTUAL_API_KEY=pk_… examples/python/pay.py

The class is small enough to be taken along. It raises Refused for what will not pass, and repeats the
rest under the same idempotency key, which is what makes repeating safe.
"""

import json
import os
import time
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

#: What does not say whether the request happened.
MAY_PASS = {408, 429, 500, 502, 503, 504}
#: No client moves a payment out of these.
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "PARKED", "REFUNDED"}


class Refused(Exception):
    """The API's problem document (RFC 9457)."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status, self.problem = status, problem


class Punctual:
    def __init__(self, url, api_key, patience=60.0):
        self.url, self.api_key, self.patience = url.rstrip("/"), api_key, patience

    def create(self, key, payee, amount, currency, due_at, **more):
        """amount: whole minor units. due_at: an aware datetime. key: the same for every retry."""
        if due_at.tzinfo is None:
            raise ValueError("a due time needs its offset")
        body = {"payee": payee, "amount": amount, "currency": currency, "dueAt": due_at.isoformat(), **more}
        return self._call("POST", "", key, body)[1]

    def payment(self, payment_id):
        return self._call("GET", f"/{payment_id}")[1]

    def cancel(self, payment_id):
        """True only if it is CANCELLED; False for a wish that is not decided yet (202)."""
        status, payment = self._call("DELETE", f"/{payment_id}")
        return status == 200 and payment["status"] == "CANCELLED"

    def wait(self, payment_id, seconds):
        until = time.monotonic() + seconds
        while True:
            payment = self.payment(payment_id)
            if payment["status"] in ENDED:
                return payment
            if time.monotonic() > until:
                raise TimeoutError(f"still {payment['status']}")
            time.sleep(0.5)

    def _call(self, method, path, key=None, body=None):
        headers = {"Authorization": f"Bearer {self.api_key}", "Accept": "application/json"}
        data = None
        if body is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
            data = json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/scheduled-payments{path}", data, headers, method=method
        )
        until, pause = time.monotonic() + self.patience, 0.5
        while True:
            wait = pause
            try:
                with urllib.request.urlopen(request, timeout=15) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code not in MAY_PASS or time.monotonic() > until:
                    raise Refused(error.code, _problem(error)) from None
                wait = max(pause, float(error.headers.get("Retry-After") or 0))
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                # It may have happened. Under the same key it can happen once only.
                if time.monotonic() > until:
                    raise
            time.sleep(wait)
            pause = min(pause * 2, 10)


def _problem(error):
    try:
        return json.load(error)
    except ValueError:
        return {"code": f"http_{error.code}", "detail": "no problem document"}


def main():
    api = Punctual(os.environ["PUNCTUAL_URL"], os.environ["PUNCTUAL_API_KEY"])
    in_an_hour = datetime.now(timezone.utc) + timedelta(hours=1)

    # Keep the key beside your own record *before* you send anything.
    key = f"invoice-{uuid.uuid4()}"
    first = api.create(key, "sim_ok", 1250, "EUR", in_an_hour, description="from Python")
    print("created", first["paymentId"])
    again = api.create(key, "sim_ok", 1250, "EUR", in_an_hour, description="from Python")
    assert again["paymentId"] == first["paymentId"]
    print("repeated: still one payment")
    try:
        api.create(key, "sim_ok", 9900, "EUR", in_an_hour, description="from Python")
        raise AssertionError("another amount under the same key must be refused")
    except Refused as refused:
        assert refused.problem["differs"] == ["/amount"], refused.problem
    print("another amount under that key: refused")

    assert api.cancel(first["paymentId"])
    print("cancelled")

    soon = datetime.now(timezone.utc) + timedelta(seconds=3)
    second = api.create(f"{key}-second", "sim_ok", 500, "EUR", soon)
    ended = api.wait(second["paymentId"], 60)
    assert ended["status"] == "COMPLETED", ended
    print("completed:", ended["gatewayReference"])


if __name__ == "__main__":
    main()
