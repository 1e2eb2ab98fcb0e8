//! TODO-STUB keeper
