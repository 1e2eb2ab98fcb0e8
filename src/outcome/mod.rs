//! TODO-STUB outcome
