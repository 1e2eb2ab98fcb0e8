# The commands of daily work. Everything they start, they stop.
.PHONY: run test check fmt install

# Everything on this machine, ready to try.
run: install
	cargo run --locked -- dev

# The whole suite on real Postgres and real Apache Kafka.
test: install
	.ci/test

# What the compiler and its friends can say.
check: install
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --all-targets --features faults -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

fmt:
	cargo fmt

# System packages: installs what is missing, or says how.
install:
	@.ci/install
