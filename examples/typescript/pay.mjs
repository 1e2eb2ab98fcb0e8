#!/usr/bin/env node
// @ts-check
/**
 * Create a payment, repeat it safely, cancel one, wait for one to complete: Node 20 and nothing else. The types
 * are TypeScript's, written where Node passes over them, so there is nothing to build; `tsc --checkJs --strict`
 * holds them, and an editor shows them.
 *
 *     PUNCTUAL_URL=http://127.0.0.1:8080 PUNCTUAL_API_KEY=pk_… node examples/typescript/pay.mjs
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {"PENDING"|"PROCESSING"|"UNKNOWN"|"COMPLETED"|"FAILED"|"CANCELLED"|"PARKED"|"REFUNDED"} Status
 * @typedef {{
 *   payee: string, amount: number, currency: string, dueAt: string, executeBefore?: string,
 *   executeWithin?: number, gateway?: string, externalId?: string, description?: string,
 *   metadata?: Record<string, string>,
 *   retry?: { maxSends?: number, onSoftDecline?: "retry" | "fail", onExhausted?: "park" | "fail" },
 * }} NewPayment `amount` counts whole minor units; `dueAt` carries its offset
 * @typedef {NewPayment & { paymentId: string, status: Status, gatewayReference?: string | null }} Payment
 * @typedef {{ code: string, detail: string, retryable: boolean, paymentStatus?: Status, differs?: string[] }} Problem
 */

/** What does not say whether the request happened. */
const MAY_PASS = new Set([408, 429, 500, 502, 503, 504]);
/** No client moves a payment out of these. */
const ENDED = new Set(["COMPLETED", "FAILED", "CANCELLED", "PARKED", "REFUNDED"]);

/** The API's problem document (RFC 9457). */
export class Refused extends Error {
  /** @param {number} status @param {Problem} problem */
  constructor(status, problem) {
    super(`${status} ${problem.code}: ${problem.detail}`);
    this.status = status;
    this.problem = problem;
  }
}

export class Punctual {
  /** @param {string} url @param {string} apiKey @param {number} [patienceMs] how long to repeat what may pass */
  constructor(url, apiKey, patienceMs = 60_000) {
    this.url = url.replace(/\/$/, "");
    this.apiKey = apiKey;
    this.patienceMs = patienceMs;
  }

  /**
   * @param {string} key the same for every retry, another for the next payment
   * @param {NewPayment} payment
   * @returns {Promise<Payment>}
   */
  async create(key, payment) {
    return (await this.call("POST", "", key, payment)).payment;
  }

  /** @param {string} paymentId @returns {Promise<Payment>} */
  async payment(paymentId) {
    return (await this.call("GET", `/${paymentId}`)).payment;
  }

  /** True only if it is CANCELLED; false for a wish that is not decided yet (202). @param {string} paymentId */
  async cancel(paymentId) {
    const { status, payment } = await this.call("DELETE", `/${paymentId}`);
    return status === 200 && payment.status === "CANCELLED";
  }

  /** @param {string} paymentId @param {number} withinMs */
  async ended(paymentId, withinMs) {
    const until = Date.now() + withinMs;
    for (;;) {
      const payment = await this.payment(paymentId);
      if (ENDED.has(payment.status)) return payment;
      if (Date.now() > until) throw new Error(`still ${payment.status}`);
      await sleep(500);
    }
  }

  /**
   * @param {string} method @param {string} path @param {string} [key] @param {NewPayment} [body]
   * @returns {Promise<{ status: number, payment: Payment }>}
   */
  async call(method, path, key, body) {
    /** @type {Record<string, string>} */
    const headers = { Authorization: `Bearer ${this.apiKey}`, Accept: "application/json" };
    if (key !== undefined) {
      headers["Idempotency-Key"] = key;
      headers["Content-Type"] = "application/json";
    }
    const until = Date.now() + this.patienceMs;
    for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
      let wait = pause;
      try {
        const answer = await fetch(`${this.url}/v1/scheduled-payments${path}`, {
          method,
          headers,
          body: body && JSON.stringify(body),
          redirect: "error",
          signal: AbortSignal.timeout(15_000),
        });
        if (answer.ok) return { status: answer.status, payment: await answer.json() };
        if (!MAY_PASS.has(answer.status) || Date.now() > until) {
          const none = { code: `http_${answer.status}`, detail: "no problem document", retryable: false };
          throw new Refused(answer.status, await answer.json().catch(() => none));
        }
        wait = Math.max(pause, 1_000 * Number(answer.headers.get("Retry-After") ?? 0));
      } catch (error) {
        // No answer: it may have happened, and under the same key it can happen once only.
        if (error instanceof Refused || Date.now() > until) throw error;
      }
      await sleep(wait);
    }
  }
}

/** @param {boolean} holds @param {string} what */
function expect(holds, what) {
  if (!holds) throw new Error(what);
}

const { PUNCTUAL_URL, PUNCTUAL_API_KEY } = process.env;
if (!PUNCTUAL_URL || !PUNCTUAL_API_KEY) throw new Error("set PUNCTUAL_URL and PUNCTUAL_API_KEY");
const api = new Punctual(PUNCTUAL_URL, PUNCTUAL_API_KEY);
/** @param {number} ms */
const fromNow = (ms) => new Date(Date.now() + ms).toISOString();

// Keep the key beside your own record *before* you send anything.
const key = `invoice-${randomUUID()}`;
const invoice = { payee: "sim_ok", amount: 1250, currency: "EUR", dueAt: fromNow(3_600_000) };
const first = await api.create(key, invoice);
console.log("created", first.paymentId);
const again = await api.create(key, invoice);
expect(again.paymentId === first.paymentId, "the same key made another payment");
console.log("repeated: still one payment");
const refused = await api.create(key, { ...invoice, amount: 9900 }).catch((error) => error);
expect(refused instanceof Refused && refused.problem.differs?.[0] === "/amount", `not refused: ${refused}`);
console.log("another amount under that key: refused");

expect(await api.cancel(first.paymentId), "not cancelled");
console.log("cancelled");

const second = await api.create(`${key}-second`, { ...invoice, amount: 500, dueAt: fromNow(3_000) });
const ended = await api.ended(second.paymentId, 60_000);
expect(ended.status === "COMPLETED", `ended as ${ended.status}`);
console.log("completed:", ended.gatewayReference);
