# The commands of daily work. Everything they start, they stop.
.PHONY: run test evidence-main check fmt install

# Everything on this machine, ready to try.
run: install
	cargo run --locked -- dev

# The whole suite on real Postgres and real Apache Kafka.
test: install
	.ci/test

# What the main job must show, run again on real services: a figure a line beside its bound; fails
# where one falls short. About three minutes after the build.
evidence-main: install
	cargo test --locked --features faults --test evidence --no-run
	.ci/with-services cargo test --locked --features faults --test evidence -- main

# What the compiler and its friends can say.
check: install
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --all-targets --features faults -- -D warnings
	cargo clippy --locked --test evidence --features faults -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

fmt:
	cargo fmt

# System packages: installs what is missing, or says how.
install:
	@.ci/install
