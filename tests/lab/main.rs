//! Tests that need no service: rules, simulation, model, tidiness.

mod ids;
