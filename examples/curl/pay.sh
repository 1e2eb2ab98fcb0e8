#!/usr/bin/env bash
# Create a payment, repeat it safely, cancel one, wait for one to complete: with nothing but curl and jq.
#
#   PUNCTUAL_URL=http://127.0.0.1:8080 PUNCTUAL_API_KEY=pk_… examples/curl/pay.sh
set -euo pipefail

PAYMENTS="$PUNCTUAL_URL/v1/scheduled-payments"

# call METHOD URL [KEY BODY]: prints the answer's body; its status is in $STATUS. Repeats what may pass, always
# under the same key: a time-out, a broken connection, 408, 429, 500 and 503 do not say whether it happened.
call() {
    local method=$1 url=$2 key=${3:-} body=${4:-} pause=1 answer
    local arguments=(-sS --max-time 15 -X "$method" -H "Authorization: Bearer $PUNCTUAL_API_KEY" -w '\n%{http_code}')
    [ -z "$key" ] || arguments+=(-H "Idempotency-Key: $key" -H 'Content-Type: application/json' -d "$body")
    for _ in 1 2 3 4 5 6; do
        if answer=$(curl "${arguments[@]}" "$url"); then
            STATUS=${answer##*$'\n'}
            case $STATUS in
            408 | 429 | 500 | 502 | 503 | 504) ;;
            *) ANSWER=${answer%$'\n'*} && return ;;
            esac
        fi
        sleep "$pause"
        pause=$((pause * 2))
    done
    echo "no answer that decides; run it again with the same key: $key" >&2
    return 1
}

# The key names the payment that you mean. Keep it beside your own record *before* you send anything.
KEY="invoice-$(date +%s)-$RANDOM"
PAYMENT=$(jq -n --arg dueAt "$(date -u -d '+1 hour' +%FT%TZ)" \
    '{payee: "sim_ok", amount: 1250, currency: "EUR", dueAt: $dueAt, description: "from curl"}')

call POST "$PAYMENTS" "$KEY" "$PAYMENT"
[ "$STATUS" = 201 ] || { echo "refused: $ANSWER" >&2; exit 1; }
ID=$(jq -r .paymentId <<<"$ANSWER")
echo "created $ID"

# The same again, as after a crash: the same payment.
call POST "$PAYMENTS" "$KEY" "$PAYMENT"
[ "$(jq -r .paymentId <<<"$ANSWER")" = "$ID" ]
echo "repeated: still one payment"

# Only 200 with CANCELLED means cancelled: 202 is a wish, 409 names the state that won.
call DELETE "$PAYMENTS/$ID"
[ "$STATUS" = 200 ] && [ "$(jq -r .status <<<"$ANSWER")" = CANCELLED ]
echo "cancelled"

# Another one, due in three seconds, waited for. PARKED waits for a human, so it is an end here too.
PAYMENT=$(jq -n --arg dueAt "$(date -u -d '+3 seconds' +%FT%TZ)" \
    '{payee: "sim_ok", amount: 500, currency: "EUR", dueAt: $dueAt}')
call POST "$PAYMENTS" "$KEY-second" "$PAYMENT"
ID=$(jq -r .paymentId <<<"$ANSWER")
UNTIL=$((SECONDS + 60))
while [ "$SECONDS" -lt "$UNTIL" ]; do
    call GET "$PAYMENTS/$ID"
    STATE=$(jq -r .status <<<"$ANSWER")
    case $STATE in
    COMPLETED) echo "completed: $(jq -r .gatewayReference <<<"$ANSWER")" && exit 0 ;;
    FAILED | CANCELLED | PARKED | REFUNDED) echo "ended as $STATE" >&2 && exit 1 ;;
    esac
    sleep 0.5
done
echo "still $STATE" >&2
exit 1
