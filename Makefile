# The commands of daily work. Everything they start, they stop.
.PHONY: run test simulate bench evidence-main evidence-proof evidence-money evidence-ring evidence-api evidence-outcomes evidence-operate check fmt install

# Everything on this machine, ready to try.
run: install
	cargo run --locked -- dev

# The whole suite on real Postgres and real Apache Kafka.
test: install
	.ci/test

# What the main job must show, run again on real services: a figure a line beside its bound; fails
# where one falls short. About eight minutes after the build, and the benchmarks behind it as much again.
evidence-main: install
	cargo test --locked --features faults --no-run
	cargo test --locked --features faults --test evidence --no-run
	.ci/with-services cargo test --locked --features faults --test evidence -- main
	$(MAKE) bench
	$(MAKE) bench LOAD="--rate 500 --at-least 490"

# What the logic must show by itself: states explored, payments simulated, bugs seeded and caught,
# sequences held against Postgres. About fifteen minutes after the build.
evidence-proof: install
	cargo test --locked --release --test lab --no-run
	cargo test --locked --features faults --no-run
	cargo test --locked --features faults --test evidence --no-run
	.ci/with-services cargo test --locked --features faults --test evidence -- proof

# What the money protocol must show on real services: every unknown outcome at four kinds of gateway, workers
# frozen at ten places, cancels at the due instant, keys that expire, a backlog; people at several consoles,
# refunds, kill switches. Twenty minutes after the build at most; PART=name runs one part of it.
evidence-money: install
	cargo test --locked --features faults --no-run
	cargo test --locked --features faults --test evidence --no-run
	.ci/with-services cargo test --locked --features faults --test evidence -- money $(PART)

# What the distributed half must show on real services: members that come and go, brokers that die, gateways
# that hold back, the midnight of the 1st. Half an hour after the build; PART=name runs one part of it.
evidence-ring: install
	cargo test --locked --release --test evidence --no-run
	PUNCTUAL_PROFILE=release .ci/with-services cargo test --locked --release --test evidence -- ring $(PART)

# What the interface and the people's side must show on real services: the document against the product
# (schemathesis, every status, the page in a browser), batches, a claim's new costs, the README's curls, five
# stories, a hundred thousand rows imported and stopped twice. Twelve minutes after the build at most;
# PART=name runs one part of it, ROWS=1000 imports less.
evidence-api: install
	@.ci/install chromium
	cargo test --locked --release --test evidence --no-run
	PUNCTUAL_PROFILE=release PUNCTUAL_IMPORT_ROWS=$(or $(ROWS),100000) .ci/with-services cargo test --locked --release --test evidence -- api $(PART)

# What leaves and what comes back must show on real services: settlement files against other readers, injected
# defects, a million lines, webhooks under failures, a day of chaos reconciled, a restored backup, every event
# against its schema. Twenty-five minutes after the build at most; PART="names" runs those parts of it.
evidence-outcomes: install
	cargo test --locked --features faults --test it --no-run
	cargo test --locked --release --test evidence --no-run
	PUNCTUAL_PROFILE=release .ci/with-services cargo test --locked --release --test evidence -- outcomes $(PART)

# What operating it must show on real services: alerts judged by promtool, ten faults named by the doctor, every page
# on a million payments, two hundred viewers, the forecast against SQL, traces, redaction, drain, a night on duty, the
# pages in a browser. Half an hour after the build at most; PART="names" runs those parts of it.
evidence-operate: install
	@.ci/install chromium chromium-driver=chromedriver
	cargo test --locked --features faults --test it --test lab --no-run
	cargo test --locked --release --test evidence --no-run
	PUNCTUAL_PROFILE=release .ci/with-services cargo test --locked --release --test evidence -- operate $(PART)

# A million payments in worlds full of faults, on virtual time, optimised: every promise checked, every
# situation counted, a figure a line. A few minutes after the build; PAYMENTS=10000 is quicker.
simulate: install
	cargo run --locked --release --bin punctual -- simulate --check --threads 2 --payments $(or $(PAYMENTS),1000000)

# The whole path under load, optimised and durable: rate, lateness, database time, ledger check. About
# five minutes after the build; LOAD="--rate 500" and other options change it, LOAD=statements measures
# the schedule's verbs alone, LOAD=outbox three ways of marking a notice as published.
bench: install
	cargo test --locked --release --test bench --no-run
	PUNCTUAL_PROFILE=release PUNCTUAL_DURABLE=1 .ci/with-services cargo test --locked --release --test bench -- $(LOAD)

# What the compiler and its friends can say.
check: install
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --no-default-features -- -D warnings
	cargo clippy --locked --all-targets --features faults -- -D warnings
	cargo clippy --locked --test evidence --test bench --features faults -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

fmt:
	cargo fmt

# System packages: installs what is missing, or says how.
install:
	@.ci/install
