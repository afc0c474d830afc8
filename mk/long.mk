# The proofs that take minutes: crash loops, minutes of metrics, volumes with many files (tests/long).
.PHONY: test-long
test-long: ## crash loops, long transfers, large deletions
	@tools/install-packages build run test
	@$(MAKE) --no-print-directory $(jobs) all
	@SPILLWAY_BUILD=$(BUILD) V=$(V) tools/run-tests long
