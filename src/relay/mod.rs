//! TODO-STUB relay
