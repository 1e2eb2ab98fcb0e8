//! TODO-STUB operations
