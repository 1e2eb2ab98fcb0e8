#!/usr/bin/env node
// Verify a webhook of ours: nothing to install. As a command:
//
//     WEBHOOK_SECRET=whsec_… examples/typescript/verify_webhook.mjs ID TIMESTAMP SIGNATURES < body
//
// with the three headers webhook-id, webhook-timestamp and webhook-signature. Prints the event's type, or ends with 1.

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/**
 * The event, from the body's bytes as they came: not parsed and written again. Throws if it is not from us.
 * @param {string} secret
 * @param {{ id: string, timestamp: string, signatures: string }} headers
 * @param {Buffer} body
 * @param {number} [now] seconds since 1970
 * @param {number} [tolerance] seconds
 * @returns {{ id: string, type: string, sequence: number, [field: string]: unknown }}
 */
export function verify(secret, { id, timestamp, signatures }, body, now = Date.now() / 1000, tolerance = 300) {
  if (!/^[0-9]+$/.test(timestamp)) throw new Error("no timestamp");
  if (Math.abs(now - Number(timestamp)) > tolerance) throw new Error("sent long ago, or in the future");
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const wanted = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  // Several while a secret is rotated; one that fits is enough. In constant time.
  const fits = signatures.split(" ").some((one) => {
    const given = Buffer.from(one);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
  if (!fits) throw new Error("signed by nobody we know");
  return JSON.parse(body.toString("utf8"));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const [id, timestamp, signatures] = process.argv.slice(2);
    const event = verify(process.env.WEBHOOK_SECRET ?? "", { id, timestamp, signatures }, readFileSync(0));
    console.log(event.type, event.id);
  } catch (error) {
    console.error(`refused: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  }
}
