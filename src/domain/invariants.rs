//! TODO-STUB invariants
