//! TODO-STUB retry
