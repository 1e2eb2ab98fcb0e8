//! TODO-STUB bucket
