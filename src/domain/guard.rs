//! TODO-STUB guard
