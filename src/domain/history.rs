//! TODO-STUB history
