//! TODO-STUB intake
