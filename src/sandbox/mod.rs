//! TODO-STUB sandbox
