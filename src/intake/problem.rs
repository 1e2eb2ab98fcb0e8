//! Every refusal that a client can get: one table of codes, one shape (RFC 9457).
//!
//! A handler answers `Err(Problem)`. The problem travels in the response's extensions and is written
//! out in one place, `envelope`, which knows the request's id and path; so no handler can forget
//! either. Nothing of a database error, a secret or a stack is ever put into a problem: its detail
//! is written here or in the rules, by us.
//!
//! `status` is the HTTP status, a number, because RFC 9457 §3.1.2 says so; the state of the payment
//! that a refusal speaks of is `paymentStatus`.

use crate::domain::ids::PaymentId;
use crate::domain::state::Status;
use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use std::borrow::Cow;

/// Whether sending the same request again, with the same key, can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retryable {
    /// Yes, after a pause; it can never create a second payment.
    Yes,
    /// No: the request itself must change.
    No,
}

macro_rules! codes {
    ($( $variant:ident = $text:literal, $status:literal, $retryable:ident, $title:literal, $doc:literal; )*) => {
        /// The stable name of a refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $( #[doc = $doc] $variant, )* }

        impl Code {
            /// All of them, in the order of the documents.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// Its text on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }

            /// The HTTP status it is answered with.
            #[must_use]
            pub fn http(self) -> u16 {
                match self { $( Self::$variant => $status, )* }
            }

            /// Whether the same request can be sent again.
            #[must_use]
            pub fn retryable(self) -> Retryable {
                match self { $( Self::$variant => Retryable::$retryable, )* }
            }

            /// A short headline, the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $( Self::$variant => $title, )* }
            }

            /// What it means and what to do, in one or two sentences.
            #[must_use]
            pub fn doc(self) -> &'static str {
                match self { $( Self::$variant => $doc, )* }
            }
        }
    };
}

codes! {
    MalformedJson = "malformed_json", 400, No, "The body is not JSON", "The body could not be read as one JSON value in UTF-8. Nothing was stored.";
    WrongType = "wrong_type", 400, No, "A field has the wrong JSON type", "Amounts and counts are JSON integers without fraction or exponent that fit in 64 bits; texts are strings. Leave an optional field out instead of sending null.";
    UnknownField = "unknown_field", 400, No, "A field is not known", "Unknown fields are refused, because a misspelt deadline would otherwise be ignored.";
    DuplicateField = "duplicate_field", 400, No, "A field appears twice", "A name may stand once in an object: readers disagree about which of two values counts.";
    MissingField = "missing_field", 400, No, "A required field is missing", "The field has no default for this API client.";
    InvalidTime = "invalid_time", 400, No, "A time is not RFC 3339 with an offset", "Write times like 2030-01-31T09:00:00Z or with an offset such as +02:00. The leap second 60 is refused.";
    UnknownParameter = "unknown_parameter", 400, No, "A query parameter is not known", "/openapi.json lists the parameters that this path takes. Others are refused, because a misspelt filter would otherwise list everything.";
    DuplicateParameter = "duplicate_parameter", 400, No, "A query parameter appears twice", "Each parameter may stand once. Several states go into one status, with commas between them.";
    InvalidParameter = "invalid_parameter", 400, No, "A query parameter is not usable", "errors names the parameter and says what it takes.";
    ConflictingParameters = "conflicting_parameters", 400, No, "Query parameters exclude each other", "A look-up by externalId, idempotencyKey or gatewayReference takes one of them and no cursor.";
    InvalidCursor = "invalid_cursor", 400, No, "The cursor does not belong here", "A cursor works unchanged, for the same API client, with the filters that it was answered for. Start again without one.";
    MissingIdempotencyKey = "missing_idempotency_key", 400, No, "Idempotency-Key is missing", "Send a key that is unique for this payment, and the same key with every retry of it.";
    InvalidIdempotencyKey = "invalid_idempotency_key", 400, No, "Idempotency-Key is not usable", "One header of 1 to 255 visible ASCII characters, bare or as an RFC 8941 string in double quotes.";
    InvalidCallback = "invalid_callback", 400, No, "The callback is not one", "A gateway's callback is an object of paymentId, key and status (charged or declined), and of nothing else.";
    InvalidSignature = "invalid_signature", 401, No, "Nobody known signed the callback", "Sign it as Standard Webhooks has it, with the secret of this gateway and a timestamp of the last 5 minutes.";
    Unauthenticated = "unauthenticated", 401, No, "No valid API key or token", "Send Authorization: Bearer with a key that is complete, not revoked and not expired, or with a token of the configured issuer.";
    MissingScope = "missing_scope", 403, No, "A scope is missing", "Use a key or token that was given the scope named in WWW-Authenticate.";
    SamePerson = "same_person", 403, No, "A second person has to decide", "Whoever asked for it cannot decide it. Two keys of one API client are one person.";
    PaymentNotFound = "payment_not_found", 404, No, "No such payment", "No payment of this API client has that id. The payments of others are answered in the same way.";
    GatewayNotFound = "gateway_not_found", 404, No, "No such gateway", "No worker of this installation has registered a gateway of that name.";
    NothingToSwitch = "nothing_to_switch", 404, No, "The switch names nothing", "A switch is of everything (global/all), of a gateway by name, of a currency by code, or of an actor by id or name, and what it names must exist: one that stops nothing would be believed in.";
    RefundNotFound = "refund_not_found", 404, No, "No such refund", "There is no refund of this id.";
    ActorNotFound = "actor_not_found", 404, No, "No such actor", "No API client has this name; one is made with its first key.";
    ApiKeyNotFound = "api_key_not_found", 404, No, "No such API key", "No key has that id; GET /v1/ops/api-keys lists them.";
    ApprovalNotFound = "approval_not_found", 404, No, "No such approval", "Nothing was asked for under this id.";
    WebhookEndpointNotFound = "webhook_endpoint_not_found", 404, No, "No such webhook endpoint", "No endpoint of this API client has that id, or it was deleted. The endpoints of others are answered in the same way.";
    WebhookDeliveryNotFound = "webhook_delivery_not_found", 404, No, "No such webhook delivery", "This endpoint was never owed that event, or its day is not kept any more.";
    BulkNotFound = "bulk_not_found", 404, No, "No such bulk re-drive", "There is no bulk re-drive of this id.";
    ReconciliationNotFound = "reconciliation_not_found", 404, No, "No such reconciliation", "No report was loaded under this id; GET /v1/ops/reconciliations lists them.";
    ReconciliationItemNotFound = "reconciliation_item_not_found", 404, No, "No such item", "No comparison found anything of this id.";
    RouteNotFound = "route_not_found", 404, No, "No such resource", "Nothing is served at this path.";
    MethodNotAllowed = "method_not_allowed", 405, No, "The method is not served here", "The header Allow lists the methods that are.";
    NotAcceptable = "not_acceptable", 406, No, "Only JSON can be answered", "The header Accept must allow application/json.";
    BodyTooSlow = "body_too_slow", 408, Yes, "The body did not arrive in time", "Nothing was created. Repeat the request with the same key.";
    IdempotencyKeyReused = "idempotency_key_reused", 409, No, "The key belongs to another request", "This key already created a payment from a different request; differs names the fields. Use a new key for a new payment.";
    ExternalIdConflict = "external_id_conflict", 409, No, "The external id is taken", "A payment of yours that is neither cancelled nor failed has this externalId.";
    ChargedBeforeRestore = "charged_before_restore", 409, No, "It was charged before a restore", "This key's payment was charged under another due time, and a restore lost that. paymentId names it: post it again as it was, with the same key and dueAt, to have it back; it is not charged again. For a new payment use a new key.";
    AlreadyQuarantined = "already_quarantined", 409, No, "The database is quarantined", "No payment is claimed already; GET /v1/ops/quarantine says since when and why. With lostFrom you say since when commits are missing.";
    NotQuarantined = "not_quarantined", 409, No, "The database is not quarantined", "Claims are made; there is nothing to release.";
    QuarantineLacks = "quarantine_lacks", 409, No, "Something is missing before the release", "errors names each day that is not compared with the gateway's report, from when on it can be, and each repair that is open. What is missing can be overridden by two persons, with anyway.";
    AlreadyProcessing = "ALREADY_PROCESSING", 409, No, "The payment is being submitted", "Submission to the gateway has started, so it can no longer be cancelled.";
    OutcomeUnknown = "OUTCOME_UNKNOWN", 409, No, "The outcome is not known yet", "A charge may have happened. Its outcome is being asked for; until then it cannot be cancelled, because its gateway does not void.";
    AlreadyFinal = "ALREADY_FINAL", 409, No, "The payment is final", "It was completed, failed or refunded, and nothing is left to cancel.";
    Parked = "PARKED", 409, No, "The payment is held for a human", "An operator decides what becomes of it.";
    NotCharged = "not_charged", 409, No, "There is no charge to give back", "It is open, or it ended without a charge that anybody knows of.";
    ReferenceUnknown = "reference_unknown", 409, No, "The charge is not this payment's", "gatewayReference must be one that the gateway gave for this payment; its record shows it.";
    RefundsNotOffered = "refunds_not_offered", 409, No, "The gateway does not refund here", "gateway.refunds must be set where the gateway is proven to refund as its contract says.";
    NothingToRefund = "nothing_to_refund", 409, No, "Nothing is left of the charge", "All of it is given back or promised back; GET /v1/ops/refunds?paymentId= shows by which refunds.";
    RefundAboveCharge = "refund_above_charge", 409, No, "More than is left of the charge", "In sum no more is given back than was charged, counting what waits for approval or an answer.";
    RefundNotWaiting = "refund_not_waiting", 409, No, "The refund does not wait for people", "It has ended, was never allowed, or the gateway is still asked about it; its status and needsHuman say which.";
    RefundOnRecord = "refund_on_record", 409, No, "An answer says that money was given back", "Resolve it as refunded, with the gateway's own name of the refund and what was given back.";
    RefundTooRecent = "refund_too_recent", 409, No, "A request of it may still arrive", "It was claimed within the last hour. Before that hour is over nobody can say that nothing will be given back.";
    RateNotSettable = "rate_not_settable", 409, No, "The rate cannot be set so", "A rate is set where gateway.rate is configured, from 1 up to that; left out, it returns to that.";
    ApiKeyNameTaken = "api_key_name_taken", 409, No, "A live key has this name", "At most one live key of an actor has a name. Rotate that key, revoke it, or choose another name.";
    ApiKeyNotLive = "api_key_not_live", 409, No, "The key has ended", "It was revoked or has expired, so nothing can take over from it. Make a new one.";
    RotationUnderWay = "rotation_under_way", 409, No, "Two keys of this name are live", "A third is not made. Revoke one of them, or wait until the older one has ended.";
    WebhookUrlTaken = "webhook_url_taken", 409, No, "Another endpoint has the address", "Each endpoint of an API client has an address of its own. Change that one, or delete it.";
    TooManyWebhookEndpoints = "too_many_webhook_endpoints", 409, No, "No more webhook endpoints", "The API client has as many as this installation allows. Delete one that is not needed.";
    WebhookEndpointChanged = "webhook_endpoint_changed", 409, No, "The endpoint has changed", "Something was done to it since the version that was named. Look at it again.";
    WebhookSecretRotating = "webhook_secret_rotating", 409, No, "Two secrets sign already", "A third is not made. Wait until the older one has ended, or rotate with an overlap of 0, which ends both at once.";
    WebhookEndpointDisabled = "webhook_endpoint_disabled", 409, No, "The endpoint is disabled", "Nothing is sent to it. Enable it first.";
    WebhookTestsWaiting = "webhook_tests_waiting", 409, No, "Ten test messages wait", "Wait until some of them have been delivered or have failed.";
    WebhookDeliveryUnderWay = "webhook_delivery_under_way", 409, No, "It is being sent at this moment", "Look at what comes of it first; a request that hangs is given up within minutes.";
    NotParked = "not_parked", 409, No, "The payment is not parked", "It is not parked, or not any more: somebody else decided, or it was never held. paymentStatus says where it stands, its history who did it.";
    PaymentChanged = "payment_changed", 409, No, "The payment has changed", "Something was written about it since it was looked at. Look at it again.";
    ChargeOnRecord = "charge_on_record", 409, No, "A charge is on record", "An answer, or a line of a settlement report that counts, says that it was charged, under whichever key. Resolve it as charged, repair it by the line, or refund it; if the line is wrong, withdraw its report.";
    DeclinedForGood = "declined_for_good", 409, No, "It was declined for good", "Nothing may be sent after a decline for good. Resolve it.";
    OpenSend = "open_send", 409, No, "A send has no answer", "A request under its key may still be charged, and only an answer under that key or a void proves that it will not. Re-drive it under the same key: it is asked about.";
    KeyUnused = "key_unused", 409, No, "The key was never used", "Nothing was sent under its present key: a re-drive without newEpoch is all it needs.";
    NoChargeWanted = "no_charge_wanted", 409, No, "Nobody wants the charge any more", "Its deadline has passed, or its client wishes to cancel it, so no new key is opened for it.";
    NotProven = "not_proven", 409, No, "No proof that it was not charged", "A new key needs an answer on record that proves that nothing was charged under the present one.";
    ReferenceTaken = "reference_taken", 409, No, "The charge belongs to another payment", "One charge pays for one payment, and this reference is another's.";
    ApprovalWaits = "approval_waits", 409, No, "Another act on it waits for approval", "Have that one decided first: GET /v1/ops/approvals lists it.";
    ApprovalDecided = "approval_decided", 409, No, "It was decided before", "An approval is decided once.";
    ApprovalExpired = "approval_expired", 409, No, "Its time is over", "Nobody decided within a day, or what was asked for had become impossible. Ask for it anew.";
    ItemDecided = "item_decided", 409, No, "The item was decided before", "It was repaired, dismissed, explained by a later report or replaced by one; its status says which.";
    NothingToRepair = "nothing_to_repair", 409, No, "No repair is possible", "The gateway's line proves nothing that the payment could be moved by, or the payment is where it should be already. Dismiss the item once it is dealt with.";
    ReportDoesNotCount = "report_does_not_count", 409, No, "The report does not count", "Only a report that was loaded whole, and that none has replaced, can be withdrawn.";
    PaymentHeld = "payment_held", 409, No, "A worker holds the payment", "It is being claimed, or the payment that took its external id is. Try again in a minute.";
    BulkDone = "bulk_done", 409, No, "The bulk re-drive is done", "Every payment of it was looked at. Make another one for what is parked now.";
    BodyTooLarge = "body_too_large", 413, No, "The body is too large", "A request may have 16 KiB, a batch 8 MiB and each payment in it 16 KiB, a gateway's callback 64 KiB.";
    UriTooLong = "uri_too_long", 414, No, "The address is too long", "Path and query may have 8 KiB.";
    UnsupportedMediaType = "unsupported_media_type", 415, No, "The body must be application/json", "Send Content-Type: application/json, in UTF-8 and without a content encoding.";
    RawCardNumber = "raw_card_number", 422, No, "A card number was sent", "13 to 19 digits that pass the Luhn check are refused in every field and name of the body, and in Idempotency-Key where they look like a card's; they are neither stored, logged nor repeated. Send a token instead.";
    Empty = "empty", 422, No, "A text is empty", "The field needs at least one character.";
    TooLong = "too_long", 422, No, "A text is too long", "The field has more characters than allowed.";
    InvalidCharacter = "invalid_character", 422, No, "A text holds a character that is not allowed", "payee is printable ASCII; other texts hold no control characters, except line breaks and tabs in description and metadata values.";
    TooManyPairs = "too_many_pairs", 422, No, "metadata has too many pairs", "metadata may have 50 pairs.";
    AmountNotPositive = "amount_not_positive", 422, No, "The amount is not positive", "amount counts minor units and is at least 1.";
    AmountAboveLimit = "amount_above_limit", 422, No, "The amount is above the limit", "This installation accepts no larger amount in one payment.";
    DailyAmountReached = "daily_amount_reached", 422, No, "The day's amount is used up", "With this payment the API client would have created more in this currency than it may on one day of UTC. Cancelling gives nothing back; the key stays free.";
    DailyCountReached = "daily_count_reached", 422, No, "The day's payments are used up", "The API client has created as many payments in this currency as it may on one day of UTC. Cancelling gives nothing back; the key stays free.";
    UnsupportedCurrency = "unsupported_currency", 422, No, "The currency is not supported", "currency is an upper-case ISO 4217 code that is in use on the due day.";
    DueInPast = "due_in_past", 422, No, "The due time has passed", "dueAt must lie in the future.";
    DueBeyondHorizon = "due_beyond_horizon", 422, No, "The due time is too far away", "dueAt lies beyond the time for which payments are accepted.";
    ExecuteBeforeNotAfterDue = "execute_before_not_after_due", 422, No, "The deadline is not after the due time", "executeBefore must be later than dueAt.";
    ExecuteBeforeWithinWindow = "execute_before_within_window", 422, No, "The deadline lies within the window", "executeBefore must not be earlier than dueAt + executeWithin.";
    UnknownGateway = "unknown_gateway", 422, No, "The gateway is not configured", "gateway must name a gateway of this installation.";
    OutOfRange = "out_of_range", 422, No, "A number is out of range", "retry.maxSends is 1 to 6; executeWithin is 0 to 86400 seconds; overlapSeconds is 0 to 2592000; maxConcurrency is 1 to 100; a cap is 0 or more; ratePerS is 1 to 500; dueTo lies after dueFrom.";
    InvalidName = "invalid_name", 422, No, "A name is not usable", "A name has 1 to 100 characters on one line, no space at its ends and no card number in it.";
    InvalidWebhookUrl = "invalid_webhook_url", 422, No, "The address cannot be a webhook endpoint's", "url is an absolute https URL in ASCII, without user, password and fragment, on port 443 or above 1023.";
    ForbiddenWebhookAddress = "forbidden_webhook_address", 422, No, "The address is not called", "Only addresses of the public internet are called, and networks that webhooks.allow lists; a name is judged again by each address that it has, at each request.";
    UnknownEventType = "unknown_event_type", 422, No, "A type of event is not known", "errors says which there are; an empty list is all of them.";
    UnknownScope = "unknown_scope", 422, No, "A scope is not known", "errors says which there are.";
    EndInPast = "end_in_past", 422, No, "The end has passed", "expiresAt must lie in the future.";
    EvidenceDiffers = "evidence_differs", 422, No, "The evidence is of another charge", "A payment is resolved as charged only with the gateway's reference, and with exactly the amount and currency that were asked for; a refund as refunded only under the gateway's own name of it, in the currency of its charge.";
    UnknownChoice = "unknown_choice", 422, No, "A choice is not known", "retry.onSoftDecline is retry or fail; retry.onExhausted is park or fail; as is charged or not_charged, and for a refund refunded or not_refunded.";
    TooManyItems = "too_many_items", 422, No, "The batch has too many payments", "A batch may have 1000 payments.";
    DuplicateItemKey = "duplicate_item_key", 422, No, "Two payments of the batch have one key", "Each payment of a batch has an idempotencyKey of its own. Nothing was created.";
    BatchRefused = "batch_refused", 422, No, "Not all payments of the batch can be created", "atomic was asked for, so none was created; errors names every payment that stands in the way.";
    RateLimited = "rate_limited", 429, Yes, "Too many requests", "The rate of this API client or address is used up, or too many keys from this address were refused. Nothing was done; send the same again after Retry-After. RateLimit says how much is left.";
    Internal = "internal", 500, Yes, "A defect on our side", "The request id finds it in our logs. Repeating the request with the same key is safe.";
    PaymentInFlight = "payment_in_flight", 503, Yes, "The payment's own outcome is being written", "Send the callback again after Retry-After.";
    DatabaseUnavailable = "database_unavailable", 503, Yes, "The schedule cannot be reached", "Repeat the request after Retry-After; one that creates or changes something under the same key, so that it does so once only.";
    TokenKeysUnavailable = "token_keys_unavailable", 503, Yes, "Tokens cannot be verified now", "The issuer's public keys could not be read. API keys are taken; repeat the request after Retry-After.";
    ScheduleNotReady = "schedule_not_ready", 503, Yes, "The due day is not prepared yet", "There is no room for this due day yet. Repeat the request with the same key after Retry-After.";
    RingUnavailable = "ring_unavailable", 503, Yes, "The ring cannot be looked at", "This process has no Kafka, or Kafka does not answer. Payments do not wait for it.";
    NoStreamFree = "no_stream_free", 503, Yes, "No stream can be opened now", "All streams of this process are taken, or it is about to stop. Connect again after Retry-After; nothing is missed with Last-Event-ID.";
    RequestTimedOut = "request_timed_out", 503, Yes, "The request took too long", "It may still succeed. Repeat it with the same key to learn its outcome.";
}

/// One broken rule, at one place of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) into the request body; into the query, taken as an object of its
    /// parameters, for a list.
    pub pointer: String,
    /// Which rule.
    #[serde(serialize_with = "code_text")]
    pub code: Code,
    /// For people; never the value that was sent.
    pub detail: Cow<'static, str>,
}

fn code_text<S: serde::Serializer>(code: &Code, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(code.as_str())
}

/// One refusal. Boxed, since it is the `Err` of nearly everything here and rare.
#[derive(Debug, Clone)]
pub struct Problem(Box<Parts>);

/// What a refusal says.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Which.
    pub code: Code,
    /// For people; `None`: the code's own sentence.
    pub detail: Option<Cow<'static, str>>,
    /// The places in the body or query, for 400 (one) and 422 (all).
    pub errors: Vec<FieldError>,
    /// The payment it speaks of.
    pub payment: Option<(PaymentId, Option<Status>)>,
    /// JSON pointers that differ from the first request under this key.
    pub differs: Option<Vec<String>>,
    /// Whole seconds, for 408, 429 and 503.
    pub retry_after_s: Option<u32>,
    /// The header that tells how to authenticate.
    pub www_authenticate: Option<String>,
}

impl std::ops::Deref for Problem {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl std::ops::DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

/// The written form; the order of its fields is the order on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    instance: &'a str,
    code: &'a str,
    retryable: bool,
    request_id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<&'a [String]>,
}

impl Problem {
    /// A refusal with nothing but its code.
    #[must_use]
    pub fn new(code: Code) -> Self {
        Self(Box::new(Parts {
            code,
            detail: None,
            errors: Vec::new(),
            payment: None,
            differs: None,
            retry_after_s: None,
            www_authenticate: None,
        }))
    }

    /// A refusal of one field's shape.
    #[must_use]
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = detail.into();
        let error = FieldError { pointer: pointer.into(), code, detail: detail.clone() };
        let mut problem = Self::new(code).detail(detail);
        problem.errors = vec![error];
        problem
    }

    /// A refusal by rules, all at once; the first one gives the code. `None` for an empty list.
    #[must_use]
    pub fn rules(errors: Vec<FieldError>) -> Option<Self> {
        let first = errors.first()?;
        let mut problem = Self::new(first.code).detail(first.detail.clone());
        problem.errors = errors;
        Some(problem)
    }

    /// With a sentence of its own.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// About this payment, in this state where the state matters.
    #[must_use]
    pub fn about(mut self, payment: PaymentId, status: Option<Status>) -> Self {
        self.0.payment = Some((payment, status));
        self
    }

    /// With `Retry-After` in whole seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// The JSON document.
    #[must_use]
    pub fn write(&self, instance: &str, request_id: &str) -> Vec<u8> {
        let written = Written {
            r#type: format!("/problems/{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.http(),
            detail: self.detail.as_deref().unwrap_or_else(|| self.code.doc()),
            instance,
            code: self.code.as_str(),
            retryable: self.code.retryable() == Retryable::Yes,
            request_id,
            errors: &self.errors,
            payment_id: self.payment.map(|(id, _)| id),
            payment_status: self.payment.and_then(|(_, status)| status),
            differs: self.differs.as_deref(),
        };
        // Texts, numbers and lists only: serde_json fails on none of them.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    fn http(&self) -> StatusCode {
        StatusCode::from_u16(self.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.http();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(Ok(how)) = self.www_authenticate.as_deref().map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static("www-authenticate"), how);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// `GET /problems/{code}`: what a problem's `type` points at, as plain text.
pub(super) async fn page(
    path: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Response<Body> {
    let wanted = path.map(|Path(code)| code).unwrap_or_default();
    match Code::ALL.iter().find(|code| code.as_str() == wanted) {
        Some(code) => format!("{}: {} ({})\n\n{}\n", code.as_str(), code.title(), code.http(), code.doc())
            .into_response(),
        None => Problem::new(Code::RouteNotFound).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::Path as FilePath;

    #[test]
    fn every_code_is_documented_and_has_a_name_of_its_own() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len(), "two codes share a name");
        for code in Code::ALL {
            assert!((400..600).contains(&code.http()), "{code:?}");
            assert!(code.title().len() > 8 && !code.title().ends_with('.'), "{code:?}");
            assert!(code.doc().len() > 20 && code.doc().ends_with('.'), "{code:?}");
            assert_eq!(
                code.retryable() == Retryable::Yes,
                matches!(code.http(), 408 | 429 | 500..),
                "{code:?}"
            );
        }
    }

    /// What a route says that it refuses is not yet refused.
    fn without_lists(text: &str) -> String {
        let (mut kept, mut rest) = (String::new(), text);
        let lists = ["refusals: &[", "REFUSALS: &[Code] = &["];
        while let Some((at, list)) = lists.iter().filter_map(|list| Some((rest.find(list)?, *list))).min() {
            kept.push_str(&rest[..at]);
            rest = rest[at + list.len()..].split_once(']').map_or("", |(_, after)| after);
        }
        kept + rest
    }

    #[test]
    fn every_code_is_used_outside_this_table() {
        let root = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut code_text = String::new();
        let folders = ["intake", "operations"].map(|folder| walkdir::WalkDir::new(root.join(folder)));
        for entry in folders.into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // What is told of an answer is no answer.
            let is_told = ["problem.rs", "openapi.rs"].contains(&name.as_str())
                || entry.path().components().any(|part| part.as_os_str() == "openapi");
            if name.ends_with(".rs") && !is_told && !name.ends_with("_tests.rs") {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                code_text.push_str(&without_lists(text.split("#[cfg(test)]\nmod tests").next().unwrap()));
            }
        }
        let words: HashSet<&str> = code_text.split(|c: char| !c.is_alphanumeric() && c != ':').collect();
        for code in Code::ALL.iter().filter(|code| **code != Code::RouteNotFound) {
            assert!(words.contains(format!("Code::{code:?}").as_str()), "{code:?} is never answered");
        }
    }

    #[test]
    fn a_problem_has_every_member_that_rfc_9457_names_and_ours() {
        let id = PaymentId::new(chrono::DateTime::UNIX_EPOCH, [7; 10]).unwrap();
        let mut problem = Problem::new(Code::IdempotencyKeyReused).about(id, Some(Status::Pending));
        problem.differs = Some(vec!["/amount".into()]);
        let written: serde_json::Value = serde_json::from_slice(&problem.write("/v1/x", "r-1")).unwrap();
        assert_eq!(
            written,
            serde_json::json!({
                "type": "/problems/idempotency_key_reused",
                "title": "The key belongs to another request",
                "status": 409,
                "detail": Code::IdempotencyKeyReused.doc(),
                "instance": "/v1/x",
                "code": "idempotency_key_reused",
                "retryable": false,
                "requestId": "r-1",
                "paymentId": id.to_string(),
                "paymentStatus": "PENDING",
                "differs": ["/amount"],
            })
        );
    }

    #[test]
    fn rules_answer_with_the_first_code_and_list_all() {
        let error = |code| FieldError { pointer: "/x".into(), code, detail: "no".into() };
        let problem = Problem::rules(vec![error(Code::TooLong), error(Code::DueInPast)]).unwrap();
        assert_eq!((problem.code, problem.errors.len()), (Code::TooLong, 2));
        assert!(Problem::rules(Vec::new()).is_none());
    }
}
