//! Rules R17 and R18: a database that lost commits charges nothing until two people have compared and release it, and
//! what was charged before is not charged again.

mod backup;
mod intent;
mod release;
mod rules;
