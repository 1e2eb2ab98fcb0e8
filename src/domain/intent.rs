//! TODO-STUB intent
