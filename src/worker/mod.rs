//! TODO-STUB worker
