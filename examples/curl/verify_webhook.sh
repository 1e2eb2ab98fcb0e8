#!/usr/bin/env bash
# Verify a webhook of ours with openssl and jq:
#
#     WEBHOOK_SECRET=whsec_… examples/curl/verify_webhook.sh ID TIMESTAMP SIGNATURES < body
#
# with the three headers webhook-id, webhook-timestamp and webhook-signature. Prints the event's type, or ends with 1.
# For looking at one message by hand: comparing texts here tells how long it took.
set -euo pipefail

refuse() { echo "refused: $1" >&2; exit 1; }

id=$1 timestamp=$2 signatures=$3
body=$(mktemp)
trap 'rm -f "$body"' EXIT
cat > "$body"

[[ $timestamp =~ ^[0-9]{1,12}$ ]] || refuse "no timestamp"
age=$(($(date +%s) - 10#$timestamp))
((age <= 300 && age >= -300)) || refuse "sent long ago, or in the future"
key=$(printf %s "${WEBHOOK_SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
wanted=v1,$({ printf '%s.%s.' "$id" "$timestamp"; cat "$body"; } |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64 -w 0)
# Several while a secret is rotated; one that fits is enough.
[[ " $signatures " == *" $wanted "* ]] || refuse "signed by nobody we know"
jq -r '"\(.type) \(.id)"' "$body"
