//! One command that brings up everything on one machine.
